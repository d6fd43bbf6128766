// Owns the door to diagnostics_channel: what tracing tools subscribe to.
// May never do anything when nobody has subscribed.

import { channel } from 'node:diagnostics_channel'

const attempts = channel('ax:attempt')

/** Whether anybody listens to `ax:attempt`; asked before a record is made. */
export function hasAttemptSubscribers(): boolean {
  return attempts.hasSubscribers
}

/** Gives a record of an attempt to everybody who has subscribed to `ax:attempt`. */
export function publishAttempt(record: object): void {
  attempts.publish(record)
}
