// Draws calls per second over time, several series side by side on one scale: in characters, and
// as an SVG of some kilobytes.

/**
 * `values[n]` is what second n has seen; `from` and `until` are seconds.
 *
 * @typedef {{
 *   series: { name: string, values: readonly number[] }[],
 *   limit: number, from: number, until: number,
 * }} Chart
 */

/** Characters for the longest bar. */
const BAR = 36

/** @param {Chart} chart */
export function chartInCharacters({ series, limit, from, until }) {
  const step = Math.ceil(mostOf({ series, limit, from, until }) / BAR)
  const column = BAR + 5
  const head = series.map(({ name }) => `${name}, calls per second`.padEnd(column)).join('')
  const lines = [`${''.padEnd(7)}${head}`.trimEnd()]
  for (let second = from; second < until; second += 1) {
    const bars = series.map(({ values }) => {
      const value = values[second] ?? 0
      const bar = (value > limit ? '█' : '▒').repeat(Math.ceil(value / step))
      return `${bar} ${value}`.padEnd(column)
    })
    lines.push(`${String(second).padStart(4)} s ${bars.join('')}`.trimEnd())
  }
  lines.push(`${''.padEnd(7)}█ more than the ${limit} that the downstream bears, ▒ no more`, '')
  return lines.join('\n')
}

const PANEL = { width: 340, height: 200, left: 44, top: 34, bottom: 30 }

/** @param {Chart} chart */
export function chartInSvg(chart) {
  const most = mostOf(chart)
  const panels = chart.series.map(({ name, values }, index) => {
    const place = `translate(${index * (PANEL.width + PANEL.left)} 0)`
    return `<g transform="${place}">${panelOf(name, values, chart, most)}</g>`
  })
  const width = chart.series.length * (PANEL.width + PANEL.left) + 12
  const height = PANEL.top + PANEL.height + PANEL.bottom
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img"
 aria-label="Calls per second" font-family="sans-serif" font-size="11" fill="#444">
<rect width="100%" height="100%" fill="#fff"/>
${panels.join('\n')}
</svg>
`
}

/**
 * @param {string} name
 * @param {readonly number[]} values
 * @param {Chart} chart
 * @param {number} most
 */
function panelOf(name, values, { limit, from, until }, most) {
  const { width, height, left, top } = PANEL
  const bar = width / (until - from)
  const y = (/** @type {number} */ value) => round(top + height * (1 - value / most))
  const bars = values.slice(from, until).map((value, index) => {
    const place = `x="${round(left + index * bar)}" y="${y(value)}" width="${round(bar * 0.8)}"`
    const color = value > limit ? '#c0392b' : '#2e86ab'
    return value === 0
      ? ''
      : `<rect ${place} height="${round(top + height - y(value))}" fill="${color}"/>`
  })
  const ticks = [from, (from + until) / 2, until].map((second) => {
    const x = round(left + (second - from) * bar)
    return `<text x="${x}" y="${top + height + 16}" text-anchor="middle">${second} s</text>`
  })
  const line = `x1="${left}" x2="${left + width}" y1="${y(limit)}" y2="${y(limit)}"`
  return [
    `<text x="${left}" y="18" font-size="13" font-weight="bold">${name}: calls per second</text>`,
    ...bars,
    `<line ${line} stroke="#444" stroke-dasharray="4 3"/>`,
    `<text x="${left - 6}" y="${y(limit) + 4}" text-anchor="end">${limit}</text>`,
    `<text x="${left - 6}" y="${y(most) + 4}" text-anchor="end">${most}</text>`,
    ...ticks,
  ].join('\n')
}

/** @param {Chart} chart */
function mostOf({ series, limit, from, until }) {
  return Math.max(limit, ...series.flatMap(({ values }) => values.slice(from, until)))
}

/** @param {number} value */
function round(value) {
  return Math.round(value * 10) / 10
}
