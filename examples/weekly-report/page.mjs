// How the report looks: one page of HTML that needs nothing else, as a mail has to be.

import { chartOf } from './chart.mjs'
import { change, escapeHtml, money, rangeOf, whole } from './words.mjs'

export function pageOf(report) {
  const { totals, products, channels, countries, reorder } = report
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Week of ${rangeOf(report.from, report.to)}: ${money(totals.thisWeek.revenue)}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<header>
<p class="shop">Kestrel Coffee</p>
<h1>The week of ${rangeOf(report.from, report.to)}</h1>
<p class="lead">${headline(report)}</p>
</header>
${cards(totals)}
<section>
<h2>Revenue per day</h2>
<p class="legend"><i class="now"></i>this week <i class="before"></i>the week before</p>
${chartOf(report.days)}
</section>
<section>
<h2>Best sellers</h2>
${table(
  ['Product', 'Units', 'Revenue', 'On week before'],
  products.map((row) => [
    escapeHtml(row.product),
    whole(row.units),
    money(row.revenue),
    delta(row.revenue, row.revenueBefore),
  ]),
)}
</section>
<section>
<h2>Channels and what they cost</h2>
${table(
  ['Channel', 'Orders', 'Revenue', 'Ad spend', 'Revenue per euro'],
  channels.map((row) => [
    escapeHtml(row.channel),
    whole(row.orders),
    money(row.revenue),
    row.spend > 0 ? money(row.spend) : '<span class="mute">none</span>',
    meter(row.roas, channels),
  ]),
)}
<p class="note">By country: ${countries
    .map(({ country, revenue }) => `${escapeHtml(country)}&nbsp;${money(revenue)}`)
    .join(' · ')}</p>
</section>
<section>
<h2>To be reordered</h2>
${reorder.length === 0 ? '<p>Everything is above its reorder point.</p>' : stockTable(reorder)}
</section>
<footer>Net of refunds. Days of cover at the pace of the last two weeks.</footer>
</main>
</body>
</html>
`
}

function headline({ totals, days, reorder }) {
  const { thisWeek, lastWeek } = totals
  const best = [...days].sort((a, b) => b.thisWeek.revenue - a.thisWeek.revenue)[0]
  const weekday = new Date(best.date).toLocaleDateString('en-GB', {
    weekday: 'long',
    timeZone: 'UTC',
  })
  const direction = thisWeek.revenue >= lastWeek.revenue ? 'up' : 'down'
  const late = reorder.filter((row) => row.late).length
  const urgent =
    late === 0
      ? ''
      : ` ${late} of ${reorder.length} low products will run out
    before a delivery ordered today arrives.`
  return `Revenue is ${direction} ${change(thisWeek.revenue, lastWeek.revenue).replace(/^[+−]/, '')}
    on the week before; ${weekday} was the best day with ${money(best.thisWeek.revenue)}.${urgent}`
}

function cards({ thisWeek, lastWeek }) {
  const cards = [
    ['Revenue', money(thisWeek.revenue), delta(thisWeek.revenue, lastWeek.revenue)],
    ['Orders', whole(thisWeek.orders), delta(thisWeek.orders, lastWeek.orders)],
    ['Average order', money(thisWeek.average, 2), delta(thisWeek.average, lastWeek.average)],
    ['Ad spend', money(thisWeek.spend), delta(thisWeek.spend, lastWeek.spend, true)],
  ]
  const html = cards.map(
    ([name, value, note]) => `<div class="card"><p>${name}</p><b>${value}</b>${note}</div>`,
  )
  return `<div class="cards">${html.join('')}</div>`
}

/** The change against before, green where it is welcome. */
function delta(now, before, lessIsBetter = false) {
  if (before === 0) return '<span class="mute">new</span>'
  const isGood = now === before || now > before !== lessIsBetter
  return `<span class="${isGood ? 'good' : 'bad'}">${change(now, before)}</span>`
}

/** A number with a bar beside it that compares it with the others. */
function meter(value, rows) {
  if (value === null) return '<span class="mute">–</span>'
  const most = Math.max(...rows.map(({ roas }) => roas ?? 0))
  const width = Math.max(2, Math.round((value / most) * 64))
  const bar = `<i><b style="width:${width}px"></b></i>`
  return `<span class="meter">${bar}<u>${value.toFixed(1)}</u></span>`
}

function stockTable(rows) {
  return table(
    ['Product', 'On hand', 'Reorder at', 'Lasts', 'Delivery', ''],
    rows.map((row) => [
      `${escapeHtml(row.product)}<small>${escapeHtml(row.supplier)}</small>`,
      whole(row.onHand),
      whole(row.reorderPoint),
      row.daysOfCover === null ? 'not sold' : `${row.daysOfCover} days`,
      `${row.leadDays} days`,
      row.late ? '<mark class="late">too late</mark>' : '<mark>order now</mark>',
    ]),
  )
}

/** The first column is text, the others are figures. */
function table(heads, rows) {
  const head = heads.map((each) => `<th scope="col">${each}</th>`).join('')
  const body = rows
    .map(([first, ...rest]) => {
      const cells = rest.map((cell) => `<td>${cell}</td>`).join('')
      return `<tr><th scope="row">${first}</th>${cells}</tr>`
    })
    .join('\n')
  return `<div class="scroll"><table>
<thead><tr>${head}</tr></thead>
<tbody>
${body}
</tbody></table></div>`
}

const STYLE = `
:root { --ink: #2a2320; --mute: #85786f; --line: #e9e1d8; --now: #b4531f; --before: #e3cdb9;
  --good: #2f7d4f; --bad: #b3362b; --paper: #fffdfa; }
* { box-sizing: border-box; }
body { margin: 0; background: #f4eee6; color: var(--ink);
  font: 15px/1.5 -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif; }
main { max-width: 760px; margin: 32px auto; padding: 40px 44px 28px; background: var(--paper);
  border: 1px solid var(--line); border-radius: 10px; }
.shop { margin: 0; color: var(--now); font-weight: 600; letter-spacing: .04em; }
h1 { margin: 2px 0 8px; font: 700 30px/1.2 Georgia, "Liberation Serif", serif; }
.lead { margin: 0; max-width: 58ch; color: #5b4f47; }
.cards { display: grid; grid-template-columns: repeat(4, 1fr); gap: 12px; margin: 26px 0 6px; }
.card { padding: 12px 14px; border: 1px solid var(--line); border-radius: 8px; }
.card p { margin: 0; color: var(--mute); font-size: 13px; }
.card b { display: block; font-size: 22px; line-height: 1.3; font-variant-numeric: tabular-nums; }
.card span { font-size: 13px; }
section { margin-top: 32px; }
h2 { margin: 0 0 6px; font: 700 19px/1.3 Georgia, "Liberation Serif", serif; }
.legend { margin: 0 0 4px; color: var(--mute); font-size: 13px; }
.legend i { display: inline-block; width: 11px; height: 11px; margin: 0 5px 0 10px;
  border-radius: 2px; vertical-align: -1px; }
.legend i:first-child { margin-left: 0; }
.now { background: var(--now); } .before { background: var(--before); }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--mute); font-size: 12px; font-family: inherit; }
svg .value { fill: var(--ink); font-weight: 600; }
.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 7px 0 7px 16px; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap; font-weight: 400; }
th:first-child { padding-left: 0; text-align: left; white-space: normal; }
tbody th { min-width: 9em; }
thead th { color: var(--mute); font-size: 13px; }
tbody tr:last-child > * { border-bottom: 0; }
small { display: block; color: var(--mute); }
.good { color: var(--good); } .bad { color: var(--bad); } .mute { color: var(--mute); }
.meter { display: inline-flex; align-items: center; gap: 10px; }
.meter i { width: 64px; height: 8px; border-radius: 2px; background: var(--line); }
.meter u { min-width: 2em; text-decoration: none; }
.meter b { display: block; height: 8px; border-radius: 2px; background: var(--now); }
mark { padding: 1px 8px; border-radius: 9px; background: #f6e9c9; color: #77560d; font-size: 13px; }
mark.late { background: #f8dcd6; color: #96281d; }
.note { margin: 8px 0 0; color: var(--mute); font-size: 13px; }
footer { margin-top: 28px; padding-top: 14px; border-top: 1px solid var(--line);
  color: var(--mute); font-size: 13px; }
@media (max-width: 640px) { main { margin: 0; padding: 24px 18px; border-radius: 0; border: 0; }
  .cards { grid-template-columns: repeat(2, 1fr); } h1 { font-size: 25px; } }
`
