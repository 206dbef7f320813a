/**
 * A sketch of an upload that bounds what one thread can do. It reads a file in pieces of 8 MiB,
 * computes the CRC32C of each, and gives its head and bytes to a socket in one write. Four pieces
 * are in progress at a time. Each becomes an object by a plain PUT that is not signed. It uses no
 * code of Holdfast, retries nothing, and is no client for any other server.
 */

import { existsSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { connect } from 'node:net';
import { fileURLToPath } from 'node:url';
import { forEach, job, localFiles, measure } from './driver.mjs';

const PIECE_BYTES = 8 * 1024 * 1024;
const LANES = 4;
const END_OF_CHUNKS = '0\r\n\r\n';

// The native code that Holdfast uses too.
const CORE = new URL('../../../packages/core/', import.meta.url);
const OWN = fileURLToPath(new URL(`native/crc32c-${process.platform}-${process.arch}.node`, CORE));
const { crc32c } = createRequire(CORE)(existsSync(OWN) ? OWN : '@node-rs/crc32');

/** One connection and the memory of one piece. */
class Lane {
  memory = Buffer.allocUnsafeSlow(PIECE_BYTES);
  #socket;
  #answer = '';
  #settle;

  constructor({ hostname, port }) {
    this.#socket = connect({ host: hostname, port: Number(port), noDelay: true });
    this.#socket.on('data', (bytes) => this.#take(bytes));
    this.#socket.on('error', (error) => this.#settle?.reject(error));
    this.#socket.on('close', () => this.#settle?.reject(new Error('the server closed the connection')));
  }

  /** Resolves when the server has answered. */
  put(path, host, bytes) {
    const checksum = Buffer.alloc(4);
    checksum.writeUInt32BE(crc32c(bytes, 0));
    const head = [
      `PUT ${path} HTTP/1.1`,
      `Host: ${host}`,
      `Content-Length: ${bytes.length}`,
      `x-amz-checksum-crc32c: ${checksum.toString('base64')}`,
    ];
    this.#settle = Promise.withResolvers();
    this.#socket.cork();
    this.#socket.write(`${head.join('\r\n')}\r\n\r\n`, 'latin1');
    this.#socket.write(bytes);
    this.#socket.uncork();
    return this.#settle.promise;
  }

  close() {
    this.#settle = undefined;
    this.#socket.destroy();
  }

  #take(bytes) {
    this.#answer += bytes.toString('latin1');
    const endOfHead = this.#answer.indexOf('\r\n\r\n') + 4;
    if (endOfHead < 4) return;
    const isInChunks = /transfer-encoding: chunked/i.test(this.#answer.slice(0, endOfHead));
    if (isInChunks && this.#answer.slice(endOfHead) !== END_OF_CHUNKS) return;
    const [status] = this.#answer.split('\r\n', 1);
    this.#answer = '';
    if (status === 'HTTP/1.1 200 OK') this.#settle.resolve();
    else this.#settle.reject(new Error(`a piece was answered with ${status}`));
  }
}

async function fill(memory, file, startBytes) {
  for (let at = 0; at < memory.length; ) {
    const { bytesRead } = await file.read(memory, at, memory.length - at, startBytes + at);
    if (bytesRead === 0) throw new Error('a file became shorter');
    at += bytesRead;
  }
}

function* piecesOf(files) {
  for (const file of files)
    for (let startBytes = 0; startBytes < file.size; startBytes += PIECE_BYTES)
      yield { ...file, startBytes, length: Math.min(PIECE_BYTES, file.size - startBytes) };
}

async function upload() {
  const url = new URL(job.endpoint);
  const files = await Promise.all(
    localFiles().map(async (file) => ({ ...file, handle: await open(file.path) })),
  );
  const lanes = Array.from({ length: LANES }, () => new Lane(url));
  const free = [...lanes];
  await forEach(piecesOf(files), LANES, async ({ name, handle, startBytes, length }) => {
    const lane = free.pop();
    const bytes = lane.memory.subarray(0, length);
    await fill(bytes, handle, startBytes);
    await lane.put(`/${job.bucket}/${job.prefix}${name}.${startBytes}`, url.host, bytes);
    free.push(lane);
  });
  for (const lane of lanes) lane.close();
  for (const { handle } of files) await handle.close();
}

await measure({ upload });
