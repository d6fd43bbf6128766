// Owns which ones are looked at, where more wait than there is time for.
// May never leave out the newest, or those who are next: a body that calls as it starts has its
// call before whatever comes after it, and one that calls late has it behind all the others.

/**
 * At most `most` of them: all, the newest first; or as many of the newest as of those in front.
 * From each of many lines at least two should be taken, however many stand in the others.
 */
export function* some<T>(
  size: number,
  most: number,
  newest: Iterable<T>,
  front: Iterable<T>,
): IterableIterator<T> {
  if (size <= most) {
    yield* newest
    return
  }
  yield* atMost(Math.ceil(most / 2), newest)
  yield* atMost(Math.floor(most / 2), front)
}

export function* atMost<T>(most: number, values: Iterable<T>): IterableIterator<T> {
  let count = 0
  for (const value of values) {
    count += 1
    if (count > most) return
    yield value
  }
}
