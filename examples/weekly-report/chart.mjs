// Draws the revenue per day of two weeks as an SVG: two bars per day on one scale.

import { money, weekday } from './words.mjs'

const WIDTH = 672
const HEIGHT = 250
const LEFT = 48
const TOP = 22
const BOTTOM = 28

export function chartOf(days) {
  const most = Math.max(...days.flatMap((day) => [day.thisWeek.revenue, day.lastWeek.revenue]))
  const step = stepFor(most)
  const top = Math.ceil(most / step) * step
  const y = (value) => HEIGHT - BOTTOM - (Math.max(0, value) / top) * (HEIGHT - TOP - BOTTOM)
  const ticks = Array.from({ length: Math.round(top / step) + 1 }, (_, index) => index * step)
  const best = days.reduce((a, b) => (b.thisWeek.revenue > a.thisWeek.revenue ? b : a))
  return `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="Revenue per day">
${ticks.map((tick) => gridLine(tick, y(tick))).join('\n')}
${days.map((day, index) => barsOf(day, index, days.length, y, day === best)).join('\n')}
</svg>`
}

/** The distance between grid lines: 1, 2 or 5 times a power of ten, four lines or so. */
function stepFor(most) {
  const rough = most / 4
  const power = 10 ** Math.floor(Math.log10(rough))
  return [1, 2, 5, 10].find((each) => each * power >= rough) * power
}

function gridLine(value, y) {
  const line = `<line x1="${LEFT}" x2="${WIDTH}" y1="${y}" y2="${y}" stroke="#e9e1d8"/>`
  return `${line}<text x="${LEFT - 8}" y="${y + 4}" text-anchor="end">${money(value)}</text>`
}

function barsOf(day, index, count, y, isBest) {
  const room = (WIDTH - LEFT) / count
  const bar = Math.min(30, room * 0.34)
  const middle = LEFT + room * (index + 0.5)
  const before = barAt(middle - bar - 1.5, bar, y(day.lastWeek.revenue), 'var(--before)')
  const now = barAt(middle + 1.5, bar, y(day.thisWeek.revenue), 'var(--now)')
  const valueAt = y(day.thisWeek.revenue) - 7
  const value = isBest
    ? `<text class="value" x="${middle + bar / 2}" y="${valueAt}" text-anchor="middle">${money(day.thisWeek.revenue)}</text>`
    : ''
  const label = `<text x="${middle}" y="${HEIGHT - 8}" text-anchor="middle">${weekday(day.date)}</text>`
  const title = `<title>${weekday(day.date)}: ${money(day.thisWeek.revenue)}, the week before ${money(day.lastWeek.revenue)}</title>`
  return `<g>${title}${before}${now}${value}${label}</g>`
}

function barAt(x, width, y, color) {
  const height = Math.max(0, HEIGHT - BOTTOM - y)
  const place = `x="${x.toFixed(1)}" y="${y.toFixed(1)}" width="${width.toFixed(1)}"`
  return `<rect ${place} height="${height.toFixed(1)}" rx="2" fill="${color}"/>`
}
