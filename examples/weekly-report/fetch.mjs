// Fetches one of the shop's exports and prints it as JSON: `node fetch.mjs sales|stock|ads`.
// The systems that they come from are files here, with the latency, and the bad day, of real ones.

import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseCsv } from './csv.mjs'

const SOURCES = {
  sales: { file: 'sales.csv', latencyMs: 600, numbers: ['quantity', 'unit_price'] },
  stock: { file: 'stock.csv', latencyMs: 350, numbers: ['on_hand', 'reorder_point', 'lead_days'] },
  ads: { file: 'ads.json', latencyMs: 450, flaky: true },
}

const name = process.argv[2] ?? ''
const source = Object.hasOwn(SOURCES, name) ? SOURCES[name] : undefined
if (source === undefined) fail(`Usage: node fetch.mjs ${Object.keys(SOURCES).join('|')}`)

await sleep(source.latencyMs)
// A command knows from AX_ATTEMPT which attempt this is, counted from 1.
if (source.flaky && process.env.AX_ATTEMPT === '1') {
  fail('GET https://ads.example/v2/spend: 503 Service Unavailable')
}

const text = await readFile(new URL(`data/${source.file}`, import.meta.url), 'utf8')
const rows = source.file.endsWith('.json') ? JSON.parse(text).rows : parseCsv(text, source.numbers)
process.stdout.write(JSON.stringify(rows))

function fail(message) {
  console.error(message)
  process.exit(1)
}
