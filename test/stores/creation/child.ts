// Owns a process that opens a file which is not there yet, and stores one job. Told a number, it
// ends itself just before it puts that many calls to SQLite.

import { AxScheduler } from '../../../src/index.ts'
import { sqliteStore } from '../../../src/stores/sqlite/index.ts'
import { spyOn } from '../crash/spy.ts'

const [file = '', id = '', last = 'never'] = process.argv.slice(2)
let calls = 0

await spyOn({
  before: () => {
    calls += 1
    if (calls === Number(last)) process.kill(process.pid, 'SIGKILL')
  },
})
const store = sqliteStore(file)
await store.open()
console.log(`opened after ${calls} calls`)
const scheduler = new AxScheduler({ store, autoStart: false })
await scheduler.addJob({ id, type: 'work', timeout: '1s' })
await scheduler.close()
await store.close()
process.exit(0)
