/**
 * Exports checkpoints to plain ElasticDL files: the same bytes, no other files, and either complete
 * or not at all.
 */

import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  createCheckpointManager,
  type RandomSource,
  type RestoreTarget,
  type SinkFile,
} from '@holdfast/core';
import { MemoryStore } from '@holdfast/core/store';
import {
  exportPlain,
  openCheckpointShards,
  openDirectoryShards,
  type ShardSet,
  shardsInMemory,
} from '@holdfast/elasticdl';
import { localFiles } from '@holdfast/local-files';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { sampleFiles } from './sample-files.ts';

let root: string;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'holdfast-foreign-'));
});

afterEach(() => rm(root, { recursive: true }));

const newTarget = (name: string) => localFiles.openTarget(join(root, name));

async function filesIn(directory: string): Promise<Record<string, Buffer>> {
  const found: Record<string, Buffer> = {};
  for (const name of await readdir(join(root, directory)))
    found[name] = await readFile(join(root, directory, name));
  return found;
}

const buffers = (files: Readonly<Record<string, Uint8Array>>) =>
  Object.fromEntries(Object.entries(files).map(([name, data]) => [name, Buffer.from(data)]));

test('the same bytes under the same names, and nothing beside them; progress ends with each file', async () => {
  // The first shard is larger than the four chunks of 4 MiB that are copied at once.
  const large = new Uint8Array(5 * 4 * 1024 * 1024 + 12_345).map((_, at) => at % 251);
  const files = {
    'variables-0-of-3.ckpt': large,
    'variables-1-of-3.ckpt': new Uint8Array(0),
    'variables-2-of-3.ckpt': new Uint8Array([1, 2, 3]),
  };
  const done: [string, number][] = [];
  const result = await exportPlain(shardsInMemory(files), await newTarget('version-100'), {
    onProgress: (event) => {
      if (event.type === 'bytes' && event.doneBytes === event.totalBytes)
        done.push([event.name, event.doneBytes]);
    },
  });
  const written = await filesIn('version-100');
  expect(Object.keys(written).toSorted()).toEqual(Object.keys(files));
  for (const [name, data] of Object.entries(files))
    expect(Buffer.compare(written[name] ?? Buffer.from('missing'), data)).toBe(0);
  expect(result).toEqual(Object.entries(files).map(([name, data]) => ({ name, sizeBytes: data.byteLength })));
  expect(done).toEqual(result.map(({ name, sizeBytes }) => [name, sizeBytes]));
});

test('names are what ElasticDL writes, whatever they were; another extension and a folder where they are asked for', async () => {
  const [bytes] = Object.values(sampleFiles({ version: 1, count: 1 }));
  const set = shardsInMemory({ 'variables-00-of-01.chkpt': bytes as Uint8Array });
  await exportPlain(set, await newTarget('a'));
  expect(await readdir(join(root, 'a'))).toEqual(['variables-0-of-1.ckpt']);
  await exportPlain(set, await newTarget('b'), { prefix: 'version-1/', extension: 'chkpt' });
  expect(await readdir(join(root, 'b/version-1'))).toEqual(['variables-0-of-1.chkpt']);
});

test('a checkpoint of a run comes back as the directory that ElasticDL would have written', async () => {
  const files = sampleFiles({ version: 100, count: 3 });
  await using manager = createCheckpointManager({ store: new MemoryStore() });
  await manager.save({ version: 100, buffers: { ...files, 'trainer.json': new Uint8Array(2) } });
  await using checkpoint = await manager.latest();
  if (!checkpoint) throw new Error('nothing was saved');
  {
    await using set = await openCheckpointShards(checkpoint);
    await exportPlain(set, await newTarget('version-100'));
  }
  expect(await filesIn('version-100')).toEqual(buffers(files));
  await using again = await openDirectoryShards(join(root, 'version-100'));
  expect(again.version).toBe(100n);
});

test('a damaged byte in the store is Corrupt, and nothing is published', async () => {
  const files = sampleFiles({ version: 100, count: 2 });
  const store = new MemoryStore();
  await using manager = createCheckpointManager({ store });
  await manager.save({ version: 100, buffers: files });
  await using checkpoint = await manager.latest();
  const damaged = (await checkpoint?.details())?.files.find(({ name }) => name === 'variables-1-of-2.ckpt');
  store.bucket.damage(damaged?.key ?? '', (bytes) => bytes.with(20, 255 - (bytes[20] ?? 0)));
  if (!checkpoint) throw new Error('nothing was saved');
  await using set = await openCheckpointShards(checkpoint);
  await expect(exportPlain(set, await newTarget('version-100'))).rejects.toMatchObject({
    code: 'Corrupt',
    message: expect.stringContaining('variables-1-of-2.ckpt'),
  });
  expect(await readdir(root)).toEqual([]);
});

const PLAIN = { 'variables-0-of-2.ckpt': new Uint8Array(10), 'variables-1-of-2.ckpt': new Uint8Array(10) };

test.each<[string, (source: RandomSource) => Partial<RandomSource>]>([
  ['cannot be read', () => ({ readInto: () => Promise.reject(new Error('odd')) })],
  ['has changed at the end', () => ({ assertUnchanged: () => Promise.reject(new Error('odd')) })],
])('a source that %s: its error, and nothing is published', async (_, change) => {
  const set = withSource(shardsInMemory(PLAIN), (source) => ({ ...source, ...change(source) }));
  await expect(exportPlain(set, await newTarget('out'))).rejects.toThrow('odd');
  expect(await readdir(root)).toEqual([]);
});

test.each(['open', 'writeAt', 'close', 'publish'] as const)(
  'a target whose %s fails: its error, all that was opened is closed, and it is discarded',
  async (failing) => {
    const calls: string[] = [];
    const call = async (name: string) => {
      calls.push(name);
      if (name === failing) throw new Error('odd');
    };
    const target: RestoreTarget = {
      async open(_file: SinkFile) {
        await call('open');
        return { writeAt: () => call('writeAt'), close: () => call('close') };
      },
      publish: () => call('publish'),
      discard: () => call('discard'),
    };
    await expect(exportPlain(shardsInMemory(PLAIN), target)).rejects.toThrow('odd');
    const expected = {
      open: ['open', 'discard'],
      writeAt: ['open', 'writeAt', 'close', 'discard'],
      close: ['open', 'writeAt', 'close', 'discard'],
      publish: ['open', 'writeAt', 'close', 'open', 'writeAt', 'close', 'publish', 'discard'],
    };
    expect(calls).toEqual(expected[failing]);
  },
);

test('a signal that fires stops it with Aborted, and nothing is published', async () => {
  const stop = new AbortController();
  const onProgress = () => stop.abort();
  const options = { signal: stop.signal, onProgress };
  await expect(exportPlain(shardsInMemory(PLAIN), await newTarget('out'), options)).rejects.toMatchObject({
    code: 'Aborted',
  });
  expect(await readdir(root)).toEqual([]);
});

function withSource(set: ShardSet, change: (source: RandomSource) => RandomSource): ShardSet {
  return { ...set, shards: set.shards.map((shard) => ({ ...shard, source: change(shard.source) })) };
}
