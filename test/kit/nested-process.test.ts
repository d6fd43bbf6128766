// Owns the promises about a process that has nothing left to do while calls wait in a ring.

import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build as bundle } from 'vite'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

describe('a process that would end in silence', () => {
  let folder = ''

  // A child of Node 20 cannot read TypeScript.
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'ax-nested-'))
    const input = resolve(import.meta.dirname, '../../src/kit/limiter.ts')
    const rollupOptions = { input, output: { entryFileNames: 'limiter.mjs' } }
    const build = { ssr: true, outDir: folder, minify: false, rollupOptions }
    await bundle({ configFile: false, logLevel: 'silent', build })
  }, 60_000)

  afterAll(() => rm(folder, { recursive: true, force: true }))

  async function run(lines: string): Promise<{ code: number; out: string; said: string }> {
    const url = pathToFileURL(join(folder, 'limiter.mjs')).href
    const head = `import { createLimiter } from '${url}'\nconst limit = createLimiter(1)\n`
    const args = ['--input-type=module', '-e', head + lines]
    return new Promise((done) => {
      execFile(process.execPath, args, (error, out, said) => {
        done({ code: Number(error?.code ?? 0), out: out.trim(), said })
      })
    })
  }

  it('B28: hears that it has waited in vain', async () => {
    const script = `
      const end = limit(async () => { await null; return await limit(() => 'inner') })
      console.log(await end.catch((error) => error.code))`
    expect(await run(script)).toEqual({ code: 0, out: 'NESTED_LIMIT', said: '' })
  })

  it('ends as it would have, if nobody waits in a ring', async () => {
    const script = `
      limit(() => new Promise(() => {}))
      console.log('waiting')
      await limit(() => 1)`
    // 13: Node's code for a top-level await that nothing will settle.
    expect(await run(script)).toMatchObject({ code: 13, out: 'waiting' })
  })

  it('B28: says so where it cannot see the ring: two wait for one promise', async () => {
    const script = `
      limit(async () => { const p = limit(() => 1); p.catch(() => {}); return await p })`
    const { code, out, said } = await run(script)
    expect({ code, out }).toEqual({ code: 0, out: '' })
    expect(said).toContain('AX_STUCK')
    expect(said).toContain('a call waits for a slot')
  })

  it('says nothing when all is done', async () => {
    expect(await run('await Promise.all([limit(() => 1), limit(() => 2)])')).toEqual({
      code: 0,
      out: '',
      said: '',
    })
  })
})
