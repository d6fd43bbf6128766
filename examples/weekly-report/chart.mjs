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
  return line + textAt(LEFT - 8, y + 4, 'end', money(value))
}

function barsOf(day, index, count, y, isBest) {
  const room = (WIDTH - LEFT) / count
  const bar = Math.min(30, room * 0.34)
  const middle = LEFT + room * (index + 0.5)
  const [now, before] = [day.thisWeek.revenue, day.lastWeek.revenue]
  return [
    `<g><title>${weekday(day.date)}: ${money(now)}, the week before ${money(before)}</title>`,
    barAt(middle - bar - 1.5, bar, y(before), 'var(--before)'),
    barAt(middle + 1.5, bar, y(now), 'var(--now)'),
    isBest ? textAt(middle + bar / 2, y(now) - 7, 'middle', money(now), 'value') : '',
    textAt(middle, HEIGHT - 8, 'middle', weekday(day.date)),
    '</g>',
  ].join('')
}

function textAt(x, y, anchor, text, name = 'label') {
  const place = `x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}"`
  return `<text class="${name}" ${place}>${text}</text>`
}

function barAt(x, width, y, color) {
  const height = Math.max(0, HEIGHT - BOTTOM - y)
  const place = `x="${x.toFixed(1)}" y="${y.toFixed(1)}" width="${width.toFixed(1)}"`
  return `<rect ${place} height="${height.toFixed(1)}" rx="2" fill="${color}"/>`
}
