// Owns a process that submits until the disk takes nothing more, asks a few times again, reads what
// there is, and stops in good order.

import { AxScheduler } from '../../../src/index.ts'
import { sqliteStore } from '../../../src/stores/sqlite/index.ts'

const [file = ''] = process.argv.slice(2)
const MORE = 5

const scheduler = new AxScheduler({ store: sqliteStore(file), autoStart: false })
const payload = 'x'.repeat(2_000)
const kept: string[] = []
const refused: string[] = []
let code = ''

for (let number = 0; refused.length < MORE; number += 1) {
  const id = `j${number}`
  try {
    await scheduler.addJob({ id, type: 'work', payload, timeout: '1s' })
    kept.push(id)
  } catch (error) {
    code = (error as { readonly code: string }).code
    refused.push(id)
  }
}
const first = await scheduler.job('j0')
await scheduler.close()
const isReadable = first?.status === 'ready'
console.log(JSON.stringify({ kept, refused, code, isReadable }))
process.exit(0)
