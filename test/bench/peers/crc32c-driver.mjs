/**
 * Computes CRC32C by one implementation, in a process of its own. Prints the CPU time, in seconds,
 * to load it, for a GiB in the processor's cache, and for a GiB outside of it.
 *
 *   node crc32c-driver.mjs DIRECTORY NAME
 *
 * DIRECTORY is where modules are found.
 */

import { createRequire } from 'node:module';
import { join } from 'node:path';

const GIB = 2 ** 30;
const PIECE_BYTES = 8 * 2 ** 20;
const POLYNOMIAL_REFLECTED = 0x82f63b78;
const CHECK_VALUE = 0xe3069283;

const [directory, name] = process.argv.slice(2);
const load = createRequire(join(directory, 'x'));

/** What each exports under this name, as a function of the bytes. */
const IMPLEMENTATIONS = {
  '@node-rs/crc32': () => load('@node-rs/crc32').crc32c,
  'aws-crt': () => load('aws-crt').checksums.crc32c,
  'hash-wasm': async () => {
    const hash = await load('hash-wasm').createCRC32(POLYNOMIAL_REFLECTED);
    return (bytes) => Number.parseInt(hash.init().update(bytes).digest('hex'), 16);
  },
};

/** A kernel of the engine's native code is `holdfast, 128 bits`. */
async function implementation() {
  if (name in IMPLEMENTATIONS) return IMPLEMENTATIONS[name]();
  const { kernels } = load(`./crc32c-${process.platform}-${process.arch}.node`);
  const kernel = kernels[name.replace('holdfast, ', '')];
  return (bytes) => kernel(bytes, 0);
}

async function cpuSeconds(work) {
  const before = process.cpuUsage();
  const result = await work();
  const { user, system } = process.cpuUsage(before);
  return [(user + system) / 1e6, result];
}

const [loadS, crc32c] = await cpuSeconds(implementation);
if (crc32c(Buffer.from('123456789')) !== CHECK_VALUE) throw new Error(`${name} computes something else`);

const memory = Buffer.alloc(GIB, 'weights');
const pieces = Array.from({ length: GIB / PIECE_BYTES }, (_, index) =>
  memory.subarray(index * PIECE_BYTES, (index + 1) * PIECE_BYTES),
);
for (let warm = 0; warm < 10; warm++) crc32c(pieces[0]);
const [cachedS] = await cpuSeconds(() => {
  for (const _ of pieces) crc32c(pieces[0]);
});
const [outsideS] = await cpuSeconds(() => {
  for (const piece of pieces) crc32c(piece);
});
console.log(JSON.stringify({ loadS, cachedS, outsideS }));
