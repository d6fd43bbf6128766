// Owns what the processes of the chaos suite and whoever judges them have to agree on.

export const PREFIX = 'chaos'

/** So short that a process which is stopped for a moment loses what it had. */
export const LEASE_MS = 1_500

/** A body that submits while the server is away fails, and there are many such moments. */
export const RETRIES = 100
