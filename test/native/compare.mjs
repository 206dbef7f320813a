/**
 * Compares every kernel of a native CRC32C with the definition, on the machine that runs this:
 *
 *   node compare.mjs FILE.node
 *
 * Prints the names of the kernels, how often they were asked, and what they computed wrongly.
 */

import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { Worker } from 'node:worker_threads';

const LENGTHS = 4097;
const OFFSETS = 16;
const SPLITS = 300;
const PAGE_BYTES = 65_536;
const POLYNOMIAL_REFLECTED = 0x82f63b78;

/** One byte more for the register, bit by bit. */
function step(register, byte) {
  let value = register ^ byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ POLYNOMIAL_REFLECTED : value >>> 1;
  return value;
}

/** The CRC32C of each beginning of `bytes`. */
function crcsOf(bytes, seed) {
  const crcs = [seed];
  let register = ~seed;
  for (const byte of bytes) {
    register = step(register, byte);
    crcs.push(~register >>> 0);
  }
  return crcs;
}

const file = resolve(process.argv[2]);
const { kernels, crc32c } = createRequire(import.meta.url)(file);
const result = { kernels: Object.keys(kernels), asked: 0, wrong: [] };

function expectCrc(name, bytes, seed, expected) {
  result.asked += 1;
  const found = kernels[name](bytes, seed);
  if (found !== expected && result.wrong.length < 10)
    result.wrong.push({ name, length: bytes.length, offset: bytes.byteOffset, seed, found, expected });
}

let state = 1;
/** Numbers that are the same in each run. */
function random(below) {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
}

const shared = new Uint8Array(new SharedArrayBuffer(LENGTHS + OFFSETS)).map(() => random(256));
const memories = { own: Uint8Array.from(shared), shared };
// Memory after the end of this one cannot be read.
const beforeTheEnd = new Uint8Array(new WebAssembly.Memory({ initial: 1 }).buffer);
for (const index of beforeTheEnd.keys()) beforeTheEnd[index] = random(256);

for (const [offset, memory] of Array.from({ length: OFFSETS }, (_, offset) => [
  offset,
  offset % 2 ? memories.own : memories.shared,
])) {
  const seed = random(2 ** 32);
  const crcs = crcsOf(memory.subarray(offset, offset + LENGTHS), seed);
  for (const name of result.kernels)
    for (let length = 0; length < LENGTHS; length++)
      expectCrc(name, memory.subarray(offset, offset + length), seed, crcs[length]);
}

const whole = crcsOf(beforeTheEnd, 0)[PAGE_BYTES];
for (const name of result.kernels) {
  for (let count = 0; count < SPLITS; count++) {
    const at = random(PAGE_BYTES);
    expectCrc(name, beforeTheEnd.subarray(at), kernels[name](beforeTheEnd.subarray(0, at), 0), whole);
  }
  expectCrc(name, Buffer.from('123456789'), 0, 0xe3069283);
}

if (crc32c !== kernels[result.kernels.at(-1)]) result.wrong.push('crc32c is not the last kernel');

// Threads share the code and load it at the same time.
const inThread = `
  const { workerData, parentPort } = require('node:worker_threads');
  parentPort.postMessage(require(workerData.file).crc32c(workerData.bytes, 0));`;
const said = await Promise.all(
  [1, 2, 3].map(
    () =>
      new Promise((resolve, reject) => {
        const worker = new Worker(inThread, { eval: true, workerData: { file, bytes: shared } });
        worker.on('message', resolve);
        worker.on('error', reject);
      }),
  ),
);
for (const found of said) if (found !== crc32c(shared, 0)) result.wrong.push(`a thread computes ${found}`);

for (const args of [
  [],
  ['text', 0],
  [new Uint16Array(4), 0],
  [new ArrayBuffer(4), 0],
  [shared],
  [shared, '0'],
]) {
  try {
    crc32c(...args);
    result.wrong.push(`takes ${args.map((arg) => Object.prototype.toString.call(arg))}`);
  } catch (error) {
    if (!(error instanceof TypeError)) result.wrong.push(String(error));
  }
}

console.log(JSON.stringify(result));
