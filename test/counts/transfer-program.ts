/**
 * Saves and restores a file, memory and many small files in a store, with the given number of
 * workers. The store is a directory, or a cloud that discards what it gets. Prints what each call
 * did. For `transfers.test.ts`, which loads `counters.ts` before this program.
 */

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openCheckpointManager } from '@holdfast/stores';
import { ADAPTERS } from '../bench/adapters/adapters.ts';
import { startDiscardServer } from '../bench/discard/process.ts';
import { MIB, patternPieces, ROTATION_BYTES } from '../bench/s3/shapes.ts';
import { type CallCounts, type Calls, WHOLE_BYTES } from './calls.ts';
import { type Counted, counted } from './counters.ts';

const [directory = '', store = '', ...numbers] = process.argv.slice(2);
const [sizeBytes = 0, smallCount = 0, workers = 0] = numbers.map(Number);

const pattern = Buffer.alloc(4 * MIB);
for (let at = 0; at < pattern.length; at += 65_536) crypto.getRandomValues(pattern.subarray(at, at + 65_536));
/** What the server gives back. Another `rotation` makes other bytes, which no save knows. */
function contentOf(rotation: number): Buffer {
  const range = { rotationBytes: rotation * ROTATION_BYTES, startBytes: 0, endBytes: sizeBytes };
  return Buffer.concat([...patternPieces(pattern, range)]);
}

const patternPath = join(directory, 'pattern');
writeFileSync(patternPath, pattern);
const file = join(directory, 'file');
writeFileSync(file, contentOf(1));
const [memory, other] = [contentOf(2), contentOf(3)] as const;
const back = { memory: new Uint8Array(sizeBytes), directory: join(directory, 'back') };
const small = Object.fromEntries(
  Array.from({ length: smallCount }, (_, index) => [`${index}`, pattern.subarray(index, index + 1000)]),
);

const adapter = ADAPTERS.find(({ name }) => name === store);
const server = adapter && (await startDiscardServer(adapter.name, patternPath));
const uri = server ? adapter.uri(server.endpoint, 'run') : pathToFileURL(join(directory, 'run')).href;
// A busy machine is slow, and no read is sent twice for it.
const settings = { workers, hedgeDelayMsMin: 0 };
const manager = await openCheckpointManager(uri, { env: adapter?.env ?? {}, settings });

async function counts(call: () => Promise<unknown>): Promise<CallCounts> {
  globalThis.gc?.();
  const before = counted();
  await call();
  const after = counted();
  const names = Object.keys(after) as (keyof Counted)[];
  const spent = Object.fromEntries(names.map((name) => [name, after[name] - before[name]]));
  const { requests, connections } = (await server?.counts()) ?? { requests: 0, connections: 0 };
  return { ...(spent as unknown as Counted), requests, connections };
}

const whole = join(directory, 'whole');
writeFileSync(whole, pattern.subarray(0, WHOLE_BYTES));
const saveWhole = (version: number) => manager.save({ version, files: { whole } });

const smallBack = join(directory, 'small');
const calls: Calls = {
  // Starts workers, and allocates what is used again.
  first: await counts(() => manager.save({ version: 1, buffers: { a: other } })),
  saveFile: await counts(() => manager.save({ version: 2, files: { a: file } })),
  restoreFile: await counts(() => manager.restore({ version: 2, to: back.directory })),
  saveMemory: await counts(() => manager.save({ version: 3, buffers: { b: memory } })),
  restoreMemory: await counts(() => manager.restore({ version: 3, to: { b: back.memory } })),
  // The file has the CRC32C of one that is stored, so it is sent with its BLAKE3.
  saveKnown: await counts(() => manager.save({ version: 4, files: { a: file } })),
  saveUnchanged: await counts(() => manager.save({ version: 5, files: { a: file } })),
  saveSmall: await counts(() => manager.save({ version: 6, buffers: small })),
  restoreSmall: await counts(() => manager.restore({ version: 6, to: smallBack })),
  saveUnchangedWhole: await saveWhole(7)
    .then(() => saveWhole(8))
    .then(() => counts(() => saveWhole(9))),
};
const isSame =
  memory.equals(back.memory) &&
  contentOf(1).equals(readFileSync(join(back.directory, 'a'))) &&
  Object.entries(small).every(([name, bytes]) => bytes.equals(readFileSync(join(smallBack, name))));
await manager.close();
await server?.close();
console.log(JSON.stringify({ calls, isSame }));
