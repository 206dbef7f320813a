/**
 * A minimal JavaScript client: `node:http` with pooled memory and CRC32C. It stores each piece as a
 * separate object.
 */

import { Agent, request } from 'node:http';
import { crc32c } from '@holdfast/core';
import { forEach, job, measure } from '../peers/driver.mjs';
import { sourceMemory } from './memory.mjs';

const PIECE_BYTES = 8 * 1024 * 1024;

const memory = sourceMemory();
const pieces = Array.from({ length: Math.ceil(job.sizeBytes / PIECE_BYTES) }, (_, index) => index);
const pool = [];
const agent = new Agent({ keepAlive: true, maxSockets: job.concurrency });
const crcs = [];

function endOf(index) {
  return Math.min((index + 1) * PIECE_BYTES, job.sizeBytes);
}

function send(method, index, headers, body, onData) {
  return new Promise((resolve, reject) => {
    const sent = request(`${job.rawUrl}/${index}`, { method, agent, headers }, (response) => {
      response.on('data', onData);
      response.on('error', reject);
      response.on('end', () => {
        if (response.statusCode < 300) resolve();
        else reject(new Error(`${method} was answered with ${response.statusCode}`));
      });
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

async function withBuffer(work) {
  const buffer = pool.pop() ?? Buffer.allocUnsafeSlow(PIECE_BYTES);
  await work(buffer);
  pool.push(buffer);
}

function upload() {
  return forEach(pieces, job.concurrency, (index) =>
    withBuffer(async (buffer) => {
      const length = memory.copy(buffer, 0, index * PIECE_BYTES, endOf(index));
      const body = buffer.subarray(0, length);
      crcs[index] = crc32c(body);
      await send('PUT', index, { ...job.rawHeaders, 'content-length': length }, body, () => undefined);
    }),
  );
}

function download() {
  return forEach(pieces, job.concurrency, (index) =>
    withBuffer(async (buffer) => {
      let at = 0;
      await send('GET', index, {}, undefined, (chunk) => {
        at += chunk.copy(buffer, at);
      });
      crcs[index] = crc32c(buffer.subarray(0, at));
    }),
  );
}

await measure({ upload, download });
agent.destroy();
for (const index of pieces)
  if (crcs[index] !== crc32c(memory.subarray(index * PIECE_BYTES, endOf(index))))
    throw new Error(`piece ${index} came back with other bytes than were sent`);
