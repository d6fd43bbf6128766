// Owns how the ready jobs of a line are read: many that are alike as one text for each column.
// May never take two for alike of which any column differs but seq, id and payload.

import { isBare, type Kin, kinAsRead, type Member, memberFor, memberIn } from './alike.ts'
import { AT, RARE, readRow } from './columns.ts'
import type { Connection, Likely } from './connection.ts'
import type { Value } from './driver.ts'
import type { Hand } from './hand.ts'
import type { Row } from './row.ts'

/** Where to read: after this place in the line, so many. */
export interface Ask {
  readonly suspect: 0 | 1
  readonly line: number
  readonly rank: number
  readonly seq: number
  readonly limit: number
}

/** What stands between the jobs in a text. Where it stands in a payload, too many are counted. */
const BETWEEN = '\x1f'

/** The columns that `ready` compares with what is likely. */
const COMPARED = [AT.created_at, AT.rank, AT.deadline, AT.said, AT.figures]

/** Compared with these, everybody differs. */
const NOTHING_LIKELY: readonly Value[] = COMPARED.map(() => null)

interface Found {
  readonly seqs: string | null
  readonly ids: string
  readonly payloads: string
  readonly rests: string
}

export function readReady(
  connection: Connection,
  hand: Hand,
  { suspect, line, rank, seq, limit }: Ask,
): readonly (Row | Member)[] {
  const likely = likelyOn(connection, line)
  const values = likely?.values ?? NOTHING_LIKELY
  const found = connection.first<Found>('ready', suspect, line, rank, seq, limit, ...values)
  if (found === undefined || found.seqs === null) return []
  const seqs = found.seqs.split(',')
  const [ids, payloads, rests] = [found.ids, found.payloads, found.rests].map((text) => {
    return text.split(BETWEEN)
  }) as [string[], string[], string[]]
  const isClear = [ids, payloads, rests].every(({ length }) => length === seqs.length)
  if (!isClear) hand.prepareSeqs(seqs.map(Number))
  return seqs.map((text, at): Row | Member => {
    const each = Number(text)
    const rest = rests[at] as string
    const known = hand.known(each)
    if (known !== undefined) return known
    if (!isClear) return hand.bySeq(each) as Row
    if (rest === '') {
      const payload = payloads[at] === '' ? undefined : payloads[at]
      return hand.enrol(memberFor(each, ids[at] as string, payload, (likely as Likely).kin))
    }
    // Too long to be read beside others.
    if (!rest.startsWith('[')) return hand.bySeq(each) as Row
    const columns = JSON.parse(rest) as readonly Value[]
    const kin = asLikely(connection, columns)
    return kin === undefined ? hand.adopt(columns) : hand.enrol(memberIn(columns, kin))
  })
}

/** What is likely of jobs of a line; nothing if its number has become that of another. */
function likelyOn(connection: Connection, line: number): Likely | undefined {
  const { likely } = connection
  if (likely?.line !== line) return undefined
  const { pool, type } = connection.lineOf(line)
  const { row } = likely.kin
  return row.pool === pool && row.type === type ? likely : undefined
}

/** What a job has in common with those that are likely from now on; undefined if it is rare. */
function asLikely(connection: Connection, columns: readonly Value[]): Kin | undefined {
  if (!isCommon(columns)) return undefined
  const line = columns[AT.line] as number
  const likely = likelyOn(connection, line)
  const isAgain = (found: Likely) =>
    COMPARED.every((column, at) => columns[column] === found.values[at])
  if (likely !== undefined && isAgain(likely)) return likely.kin
  const row = readRow(columns, connection)
  if (!isBare(row)) return undefined
  const kin = kinAsRead(row)
  connection.likely = { line, values: COMPARED.map((at) => columns[at] as Value), kin }
  return kin
}

/** As `IS_COMMON` asks of a row in the file. */
function isCommon(columns: readonly Value[]): boolean {
  const isNull = (column: keyof typeof AT) => columns[AT[column]] === null
  const isNone = (column: keyof typeof AT) => columns[AT[column]] === 0
  return RARE.job.every(isNull) && RARE.live.every(isNull) && RARE.counts.every(isNone)
}
