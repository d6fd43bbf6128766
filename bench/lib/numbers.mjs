// Owns arithmetic on measurements: medians, percentiles, spreads, and seeded randomness.
// May never measure anything itself.

/** @param {readonly number[]} values */
export function median(values) {
  return percentile(values, 0.5)
}

/**
 * The value at a share of the sorted values, between two of them in proportion; NaN for none.
 *
 * @param {readonly number[]} values
 * @param {number} share from 0 to 1
 */
export function percentile(values, share) {
  const sorted = [...values].sort((a, b) => a - b)
  const place = share * (sorted.length - 1)
  const below = sorted[Math.floor(place)] ?? Number.NaN
  const above = sorted[Math.ceil(place)] ?? Number.NaN
  return below + (above - below) * (place - Math.floor(place))
}

/**
 * How far repeats lie apart: (largest - smallest) / median.
 *
 * @param {readonly number[]} values
 */
export function spread(values) {
  return (Math.max(...values) - Math.min(...values)) / median(values)
}

/**
 * Numbers in [0, 1), the same ones for the same seed: a linear congruential generator with the
 * multiplier of Numerical Recipes, its high bits only. Good enough to shuffle a workload.
 *
 * @param {number} seed
 * @returns {() => number}
 */
export function seeded(seed) {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return (state >>> 8) / 2 ** 24
  }
}
