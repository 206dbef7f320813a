/**
 * Saves a file and memory to a store and restores both, with the given number of workers. The store
 * is a directory, or an S3 that discards what it gets. Prints what each call did. For
 * `transfers.test.ts`, which loads `counters.ts` before this program.
 */

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openCheckpointManager } from '@holdfast/stores';
import { startDiscardServer } from '../bench/discard/process.ts';
import { MIB, patternPieces, ROTATION_BYTES } from '../bench/s3/shapes.ts';
import { type Counted, counted } from './counters.ts';

/** What one call did. */
export interface CallCounts extends Counted {
  readonly requests: number;
  readonly connections: number;
}

export type Calls = Readonly<
  Record<'first' | 'saveFile' | 'restoreFile' | 'saveMemory' | 'restoreMemory', CallCounts>
>;

const [directory = '', store = '', ...numbers] = process.argv.slice(2);
const [sizeBytes = 0, workers = 0] = numbers.map(Number);

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

const server = await startDiscardServer('s3', patternPath);
const query = new URLSearchParams({ endpoint: server.endpoint, region: 'us-east-1' });
const uri = store === 's3' ? `s3://bench/run?${query}` : pathToFileURL(join(directory, 'run')).href;
const env = { AWS_ACCESS_KEY_ID: 'any', AWS_SECRET_ACCESS_KEY: 'any' };
// A busy machine is slow, and no read is sent twice for it.
const settings = { workers, hedgeDelayMsMin: 0 };
const manager = await openCheckpointManager(uri, { env, settings });

async function counts(call: () => Promise<unknown>): Promise<CallCounts> {
  const before = counted();
  await call();
  const after = counted();
  const names = Object.keys(after) as (keyof Counted)[];
  const spent = Object.fromEntries(names.map((name) => [name, after[name] - before[name]]));
  const { requests, connections } = await server.counts();
  return { ...(spent as unknown as Counted), requests, connections };
}

const calls: Calls = {
  // Starts workers, and allocates what is used again.
  first: await counts(() => manager.save({ version: 1, buffers: { a: other } })),
  saveFile: await counts(() => manager.save({ version: 2, files: { a: file } })),
  restoreFile: await counts(() => manager.restore({ version: 2, to: back.directory })),
  saveMemory: await counts(() => manager.save({ version: 3, buffers: { b: memory } })),
  restoreMemory: await counts(() => manager.restore({ version: 3, to: { b: back.memory } })),
};
const isSame = memory.equals(back.memory) && contentOf(1).equals(readFileSync(join(back.directory, 'a')));
await manager.close();
await server.close();
console.log(JSON.stringify({ calls, isSame }));
