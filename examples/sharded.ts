/**
 * Four writers save one checkpoint, each its own shard. Here they are four managers in one process.
 * In a real job each is a process on any machine that reaches the store. A writer needs only its
 * index, the number of writers, and an attempt id that all of them share.
 */

import { randomUUID } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openCheckpointManager } from '@holdfast/stores';

const WRITER_COUNT = 4;
const uri = pathToFileURL(join(tmpdir(), 'holdfast-example', 'sharded')).href;
// One id for each life of the job, never used again. For example, combine a scheduler's job id and
// restart count.
const attempt = randomUUID();

async function saveShard(index: number, version: number): Promise<void> {
  await using run = await openCheckpointManager(uri, { attempt, writer: { index, count: WRITER_COUNT } });
  const shard = new Uint8Array(new Float32Array(1000).fill(index).buffer);
  // Resolves when all four writers have delivered and the checkpoint is committed.
  await run.save({ version, buffers: { [`shard-${index}-of-${WRITER_COUNT}.bin`]: shard } });
}

await using run = await openCheckpointManager(uri);
const version = Number((await run.latest())?.version ?? 0) + 100;
await Promise.all(Array.from({ length: WRITER_COUNT }, (_, index) => saveShard(index, version)));

const details = await (await run.latest())?.details();
for (const file of details?.files ?? [])
  console.log(`${file.name}: ${file.sizeBytes} bytes of writer ${file.writer}`);
console.log(`version ${details?.version} of ${details?.worldSize} writers`);
