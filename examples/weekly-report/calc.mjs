// Joins the three exports into the figures of the week, and prints them as JSON.
// The results of the jobs it depends on are in the file that AX_DEPS names.

import { readFileSync } from 'node:fs'

const {
  fetch_sales: sales,
  fetch_stock: stock,
  fetch_ads: ads,
} = JSON.parse(readFileSync(process.env.AX_DEPS, 'utf8'))

/** The week ends with the last day that was sold on; the one before is what it is measured by. */
const lastDay = sales
  .map(({ date }) => date)
  .sort()
  .at(-1)
const thisWeek = daysUpTo(lastDay, 7)
const lastWeek = daysUpTo(addDays(lastDay, -7), 7)

const report = {
  from: thisWeek[0],
  to: lastDay,
  currency: 'EUR',
  totals: { thisWeek: totalsOf(thisWeek), lastWeek: totalsOf(lastWeek) },
  days: thisWeek.map((date, index) => ({
    date,
    thisWeek: totalsOf([date]),
    lastWeek: totalsOf([lastWeek[index]]),
  })),
  products: products().slice(0, 6),
  channels: channels(),
  countries: countries(),
  reorder: reorder(),
}
process.stdout.write(JSON.stringify(report))

/** Revenue is net of refunds, which are lines of a negative quantity and no orders. */
function totalsOf(days) {
  const lines = within(sales, days)
  const orders = ordersOf(lines)
  const revenue = sum(lines, amountOf)
  const refunds = -sum(lines.filter(isRefund), amountOf)
  const spend = sum(within(ads, days), ({ cost }) => cost)
  return {
    revenue: round(revenue),
    orders,
    average: round(orders === 0 ? 0 : (revenue + refunds) / orders),
    refunds: round(refunds),
    spend: round(spend),
  }
}

/** Best sellers of the week by revenue, each with what it made the week before. */
function products() {
  const before = groupBy(within(sales, lastWeek), ({ sku }) => sku)
  return [...groupBy(within(sales, thisWeek), ({ sku }) => sku)]
    .map(([sku, lines]) => ({
      sku,
      product: lines[0].product,
      units: sum(lines, ({ quantity }) => quantity),
      revenue: round(sum(lines, amountOf)),
      revenueBefore: round(sum(before.get(sku) ?? [], amountOf)),
    }))
    .sort((a, b) => b.revenue - a.revenue)
}

/** What each channel brought in for what was spent on it; `roas` is revenue per euro of ads. */
function channels() {
  const spent = groupBy(within(ads, thisWeek), ({ channel }) => channel)
  return [...groupBy(within(sales, thisWeek), ({ channel }) => channel)]
    .map(([channel, lines]) => {
      const revenue = round(sum(lines, amountOf))
      const spend = round(sum(spent.get(channel) ?? [], ({ cost }) => cost))
      const clicks = sum(spent.get(channel) ?? [], (row) => row.clicks)
      const orders = ordersOf(lines)
      const roas = spend > 0 ? round(revenue / spend) : null
      return { channel, revenue, orders, spend, clicks, roas }
    })
    .sort((a, b) => b.revenue - a.revenue)
}

function countries() {
  return [...groupBy(within(sales, thisWeek), ({ country }) => country)]
    .map(([country, lines]) => ({ country, revenue: round(sum(lines, amountOf)) }))
    .sort((a, b) => b.revenue - a.revenue)
}

/**
 * Products at or below their reorder point, the most urgent first. `daysOfCover` is how long the
 * stock lasts at the pace of the last two weeks; `late` says that a delivery would come too late.
 */
function reorder() {
  const days = [...lastWeek, ...thisWeek]
  const sold = groupBy(within(sales, days), ({ sku }) => sku)
  return stock
    .filter(({ on_hand, reorder_point }) => on_hand <= reorder_point)
    .map((row) => {
      const perDay = sum(sold.get(row.sku) ?? [], ({ quantity }) => quantity) / days.length
      const daysOfCover = perDay > 0 ? Math.floor(row.on_hand / perDay) : null
      return {
        sku: row.sku,
        product: row.product,
        onHand: row.on_hand,
        reorderPoint: row.reorder_point,
        supplier: row.supplier,
        leadDays: row.lead_days,
        daysOfCover,
        late: daysOfCover !== null && daysOfCover < row.lead_days,
      }
    })
    .sort((a, b) => (a.daysOfCover ?? 999) - a.leadDays - ((b.daysOfCover ?? 999) - b.leadDays))
}

function ordersOf(lines) {
  return new Set(lines.filter((line) => !isRefund(line)).map((line) => line.order_id)).size
}

function isRefund({ quantity }) {
  return quantity < 0
}

function amountOf({ quantity, unit_price }) {
  return quantity * unit_price
}

function within(rows, days) {
  return rows.filter(({ date }) => days.includes(date))
}

function groupBy(rows, keyOf) {
  const groups = new Map()
  for (const row of rows) {
    const key = keyOf(row)
    groups.set(key, [...(groups.get(key) ?? []), row])
  }
  return groups
}

function sum(rows, figureOf) {
  return rows.reduce((total, row) => total + figureOf(row), 0)
}

function round(value) {
  return Math.round(value * 100) / 100
}

function daysUpTo(last, count) {
  return Array.from({ length: count }, (_, index) => addDays(last, index + 1 - count))
}

function addDays(date, days) {
  return new Date(Date.parse(date) + days * 86_400_000).toISOString().slice(0, 10)
}
