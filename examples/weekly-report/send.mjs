// Makes a page of the figures and delivers it to the outbox; prints the path of the page.
// A reader of the outbox never sees half a page: it is written beside it and then renamed. The
// name is that of the week, so that doing it twice delivers one report and not two.

import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { pageOf } from './page.mjs'

const { calc_report: report } = JSON.parse(readFileSync(process.env.AX_DEPS, 'utf8'))
const outbox = fileURLToPath(new URL('outbox', import.meta.url))
const path = join(outbox, `weekly-report-${report.to}.html`)
const draft = `${path}.${process.pid}.tmp`

mkdirSync(outbox, { recursive: true })
writeFileSync(draft, pageOf(report))
renameSync(draft, path)
console.log(path)
