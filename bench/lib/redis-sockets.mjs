// Owns bare connections that listen to a channel, many of them: a library would cost this process
// more than the messages cost the server. May never read what a message says.

import { once } from 'node:events'
import { connect } from 'node:net'

const PATIENCE_MS = 10_000
const LOOK_MS = 10

/**
 * So many listeners. `heard` answers how many messages each has got, on an average, once all have
 * got what they should, or when that has taken too long.
 *
 * @param {string} url
 * @param {string} channel
 * @param {number} count
 */
export async function subscribe(url, channel, count) {
  const { hostname, port, password } = new URL(url)
  const open = async () => {
    const socket = connect(Number(port), hostname)
    await once(socket, 'connect')
    socket.write(`AUTH ${password}\r\nSUBSCRIBE ${channel}\r\n`)
    let said = ''
    while (!said.endsWith(':1\r\n')) said += String((await once(socket, 'data'))[0])
    return socket
  }
  const sockets = await Promise.all(Array.from({ length: count }, open))
  let bytes = 0
  for (const socket of sockets) {
    socket.on('data', (data) => {
      bytes += data.length
    })
  }
  return {
    heard: async (/** @type {number} */ each, /** @type {string} */ message) => {
      const parts = ['message', channel, message].map((text) => `$${text.length}\r\n${text}\r\n`)
      const length = `*3\r\n${parts.join('')}`.length
      const end = performance.now() + PATIENCE_MS
      while (bytes < each * count * length && performance.now() < end) {
        await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
      }
      return bytes / length / count
    },
    close: () => {
      for (const socket of sockets) socket.destroy()
    },
  }
}
