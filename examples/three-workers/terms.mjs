// What all processes of this example agree on.

/** A worker that says nothing for so long is dead. The default is 15 s; here nobody wants to wait. */
export const LEASE = '3s'

/** Six orders at once over all workers, and two in each: so each gets its share. */
export const POOLS = { orders: { concurrency: 6, perWorker: 2 } }
