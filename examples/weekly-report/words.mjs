// How figures and dates are written.

const DAY = { day: 'numeric', timeZone: 'UTC' }

/** Whole euros, unless cents are asked for. */
export function money(value, digits = 0) {
  return value.toLocaleString('en-IE', {
    style: 'currency',
    currency: 'EUR',
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  })
}

export function whole(value) {
  return value.toLocaleString('en-IE')
}

/** How much more than before, in percent: `+12 %`, `−3 %`. */
export function change(now, before) {
  const percent = Math.round((now / before - 1) * 100)
  if (percent === 0) return '±0 %'
  return `${percent < 0 ? '−' : '+'}${Math.abs(percent)} %`
}

/** `11 to 17 May 2026` */
export function rangeOf(from, to) {
  const sameMonth = from.slice(0, 7) === to.slice(0, 7)
  const start = new Date(from).toLocaleDateString('en-GB', {
    ...DAY,
    ...(sameMonth ? {} : { month: 'long' }),
  })
  const end = new Date(to).toLocaleDateString('en-GB', { ...DAY, month: 'long', year: 'numeric' })
  return `${start} to ${end}`
}

export function weekday(date) {
  return new Date(date).toLocaleDateString('en-GB', { weekday: 'short', ...DAY })
}

export function escapeHtml(text) {
  const names = { '&': 'amp', '<': 'lt', '>': 'gt', '"': 'quot' }
  return text.replace(/[&<>"]/g, (letter) => `&${names[letter]};`)
}
