// Reads CSV as spreadsheets write it: quoted fields may hold commas, quotes and line ends.

/** Rows as objects by the names of the first line; the columns in `numbers` become numbers. */
export function parseCsv(text, numbers = []) {
  const [heads = [], ...lines] = fieldsOf(text)
  return lines.map((fields) =>
    Object.fromEntries(
      heads.map((head, index) => {
        const field = fields[index] ?? ''
        return [head, numbers.includes(head) ? Number(field) : field]
      }),
    ),
  )
}

function fieldsOf(text) {
  const lines = []
  let line = []
  for (const [, quoted, bare, end] of text.matchAll(
    /(?:"((?:[^"]|"")*)"|([^,\r\n]*))(,|\r?\n|$)/g,
  )) {
    line.push(quoted?.replaceAll('""', '"') ?? bare)
    if (end === ',') continue
    if (line.length > 1 || line[0] !== '') lines.push(line)
    line = []
  }
  return lines
}
