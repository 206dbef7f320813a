/**
 * Imports ElasticDL versions as checkpoints of a run. The import first checks the complete version,
 * then saves the same bytes under the same number.
 */

import { appendFileSync } from 'node:fs';
import { mkdtemp, rename, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { createCheckpointManager, type RandomSource, type RunManager } from '@holdfast/core';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import {
  directoryPlace,
  importAll,
  importCheckpoint,
  openDirectoryShards,
  openPrefixShards,
  prefixPlace,
  type ShardSet,
  shardsInMemory,
} from '@holdfast/elasticdl';
import { localFiles } from '@holdfast/local-files';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Sample, sampleFiles, writeFiles } from './sample-files.ts';

let root: string;
let bucket: MemoryBucket;
let manager: RunManager;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'holdfast-foreign-'));
  bucket = new MemoryBucket();
  manager = openManager();
});

afterEach(async () => {
  await manager.close();
  await rm(root, { recursive: true });
});

function openManager(): RunManager {
  return createCheckpointManager({ store: new MemoryStore(bucket), files: localFiles });
}

async function writeVersion(sample: Sample, folder = `version-${sample.version}`): Promise<string> {
  const directory = join(root, folder);
  await writeFiles(directory, sampleFiles(sample));
  return directory;
}

/** The files of a version in the run. */
async function savedFiles(version: number): Promise<Record<string, Buffer>> {
  await using checkpoint = await manager.get(version);
  if (!checkpoint) throw new Error(`version ${version} is not there`);
  const found: Record<string, Buffer> = {};
  for (const { name } of (await checkpoint.details()).files)
    found[name] = await buffer(checkpoint.openInputStream(name));
  return found;
}

async function versions(): Promise<bigint[]> {
  return (await manager.list()).map(({ version }) => version);
}

describe('one checkpoint', () => {
  test('a directory: the same names and bytes under its version, with metrics and metadata; once more is nothing new', async () => {
    const files = sampleFiles({ version: 100, count: 3, form: 'S4' });
    await using set = await openDirectoryShards(await writeVersion({ version: 100, count: 3, form: 'S4' }));
    const result = await importCheckpoint(set, manager, {
      metrics: { auc: 0.75 },
      metadata: { from: 'ElasticDL' },
    });
    expect(result).toMatchObject({ version: 100n, modelVersion: 100, notes: [], fileCount: 3 });
    expect(await savedFiles(100)).toEqual(
      Object.fromEntries(Object.entries(files).map(([name, data]) => [name, Buffer.from(data)])),
    );
    await using checkpoint = await manager.latest();
    expect(await checkpoint?.details()).toMatchObject({
      metrics: { auc: 0.75 },
      metadata: { from: 'ElasticDL' },
      worldSize: 1,
    });
    expect(await importCheckpoint(set, manager)).toMatchObject({ wasCommittedBefore: true });
    expect(await versions()).toEqual([100n]);
  });

  test('a prefix of a store: read as a stream, as often as it takes', async () => {
    const store = new MemoryStore();
    // Three chunks of 4 MiB in each file.
    const files = sampleFiles({ version: 7, count: 2, dim: 500_000 });
    for (const [name, data] of Object.entries(files)) store.bucket.insert(`ckpt/version-7/${name}`, data);
    await using set = await openPrefixShards(store, 'ckpt/version-7');
    expect(await importCheckpoint(set, manager)).toMatchObject({ version: 7n, wasCommittedBefore: false });
    const saved = await savedFiles(7);
    for (const [name, data] of Object.entries(files))
      expect(Buffer.compare(saved[name] ?? data.subarray(1), data)).toBe(0);
    expect(await importCheckpoint(set, manager)).toMatchObject({ version: 7n, wasCommittedBefore: true });
  });

  test('the version is the one given, else that of the directory, else the one in the files', async () => {
    await using named = await openDirectoryShards(await writeVersion({ version: 4, count: 1 }, 'version-5'));
    await using unnamed = await openDirectoryShards(await writeVersion({ version: 6, count: 1 }, 'model'));
    expect(await importCheckpoint(named, manager)).toMatchObject({
      version: 5n,
      modelVersion: 4,
      notes: [`the files of ${join(root, 'version-5')} say version 4`],
    });
    expect(await importCheckpoint(unnamed, manager)).toMatchObject({ version: 6n, notes: [] });
    expect(await importCheckpoint(unnamed, manager, { version: 2n ** 62n })).toMatchObject({
      version: 2n ** 62n,
      modelVersion: 6,
    });
  });

  test('files that call themselves a negative version need one that is given: InvalidArgument', async () => {
    const set = shardsInMemory(sampleFiles({ version: -1, count: 1 }));
    await expect(importCheckpoint(set, manager)).rejects.toMatchObject({ code: 'InvalidArgument' });
    expect(await importCheckpoint(set, manager, { version: 0n })).toMatchObject({ modelVersion: -1 });
  });

  test('nothing is committed, or even begun, of a checkpoint of which one file does not decode', async () => {
    const directory = await writeVersion({ version: 3, count: 2 });
    await truncate(join(directory, 'variables-1-of-2.ckpt'), 50);
    await using set = await openDirectoryShards(directory);
    await expect(importCheckpoint(set, manager)).rejects.toMatchObject({
      code: 'Corrupt',
      message: expect.stringContaining(join(directory, 'variables-1-of-2.ckpt')),
    });
    expect(bucket.keys()).toEqual([]);
  });

  test('A9: nothing is committed of shards that are of different versions', async () => {
    const set = shardsInMemory({
      ...sampleFiles({ version: 3, count: 2 }),
      'variables-1-of-2.ckpt': sampleFiles({ version: 4, count: 2 })['variables-1-of-2.ckpt'] as Uint8Array,
    });
    await expect(importCheckpoint(set, manager, { version: 3n })).rejects.toThrow('are not consistent');
    expect(bucket.keys()).toEqual([]);
  });

  test('a source that is not the same any more at the end of its stream fails the save', async () => {
    const set = shardsInMemory(sampleFiles({ version: 3, count: 1 }));
    let proofs = 0;
    const changed = withSource(set, (source) => ({
      ...source,
      async assertUnchanged() {
        if (++proofs > 1) throw Object.assign(new Error('it is another by now'));
      },
    }));
    await expect(importCheckpoint(changed, manager)).rejects.toThrow('it is another by now');
    expect(await versions()).toEqual([]);
  });

  test('a read that fails in the middle of a stream fails the save, and nothing is left under way', async () => {
    const set = shardsInMemory(sampleFiles({ version: 3, count: 1, dim: 500_000 }));
    let reading = 0;
    const broken = withSource(set, (source) => ({
      ...source,
      async readInto(offsetBytes: number, buffer: Uint8Array) {
        reading += 1;
        try {
          if (offsetBytes >= 4 * 1024 * 1024 && buffer.byteLength > 1024 * 1024)
            throw new Error('the disk is gone');
          await source.readInto(offsetBytes, buffer);
        } finally {
          reading -= 1;
        }
      },
    }));
    await expect(importCheckpoint(broken, manager)).rejects.toThrow('the disk is gone');
    expect([reading, await versions()]).toEqual([0, []]);
  });

  test('a file that changes between the check and the save: SourceChanged, and nothing is committed', async () => {
    const directory = await writeVersion({ version: 3, count: 1 });
    await using set = await openDirectoryShards(directory);
    const onProgress = ({ type }: { type: string }) => {
      if (type === 'joined') appendFileSync(join(directory, 'variables-0-of-1.ckpt'), 'x');
    };
    await expect(importCheckpoint(set, manager, { onProgress })).rejects.toMatchObject({
      code: 'SourceChanged',
    });
    expect(await versions()).toEqual([]);
  });

  test('a source whose changes show in its bytes alone is read twice: changed under way it is SourceChanged', async () => {
    const set = shardsInMemory(sampleFiles({ version: 3, count: 1, dim: 500_000 }));
    let isSending = false;
    const changing = withSource(set, (source) => ({
      ...source,
      mayHideChanges: true,
      async readInto(offsetBytes: number, buffer: Uint8Array) {
        await source.readInto(offsetBytes, buffer);
        // Only after the check, and never in the first chunk, which is read before.
        if (isSending && offsetBytes === 0) buffer[0] = (buffer[0] ?? 0) ^ 1;
        isSending ||= offsetBytes >= 4 * 1024 * 1024;
      },
    }));
    const onProgress = ({ type }: { type: string }) => {
      if (type === 'planned') isSending = false;
    };
    await expect(importCheckpoint(changing, manager, { onProgress })).rejects.toMatchObject({
      code: 'SourceChanged',
    });
    expect(await versions()).toEqual([]);
  });

  test('other content under a version that the run has is a Conflict', async () => {
    await manager.save({ version: 3, buffers: { other: new Uint8Array(3) } });
    const set = shardsInMemory(sampleFiles({ version: 3, count: 1 }));
    await expect(importCheckpoint(set, manager)).rejects.toMatchObject({ code: 'Conflict' });
  });

  test('a signal that fires stops it with Aborted, and nothing is committed', async () => {
    const set = shardsInMemory(sampleFiles({ version: 3, count: 1 }));
    const stop = new AbortController();
    const onProgress = () => stop.abort();
    await expect(importCheckpoint(set, manager, { signal: stop.signal, onProgress })).rejects.toMatchObject({
      code: 'Aborted',
    });
    expect(await versions()).toEqual([]);
  });
});

describe('all versions', () => {
  test('ascending by number; incomplete and damaged ones are told; once more is nothing new', async () => {
    for (const version of [100, 95, 90, 85, 80]) await writeVersion({ version, count: 2 });
    await rm(join(root, 'version-90/variables-0-of-2.ckpt'));
    await truncate(join(root, 'version-95/variables-0-of-2.ckpt'), 30);
    await writeFile(join(root, 'readme'), '');
    const expected = {
      imported: [{ version: 80n }, { version: 85n }, { version: 100n }],
      skipped: [
        { version: 90n, folder: 'version-90', reason: expect.stringContaining('lacks shard 0 of 2') },
        { version: 95n, folder: 'version-95', reason: expect.stringContaining('variables-0-of-2.ckpt') },
      ],
    };
    const first = await importAll(directoryPlace(root), manager);
    expect(first).toMatchObject(expected);
    expect(first.imported.map(({ wasCommittedBefore }) => wasCommittedBefore)).toEqual([false, false, false]);
    expect(await versions()).toEqual([100n, 85n, 80n]);

    await using again = openManager();
    const second = await importAll(directoryPlace(root), again);
    expect(second).toMatchObject(expected);
    expect(second.imported.map(({ wasCommittedBefore }) => wasCommittedBefore)).toEqual([true, true, true]);
  });

  test('from a store; a version below the highest of the run is skipped with the reason', async () => {
    const store = new MemoryStore();
    for (const version of [1, 2, 3]) {
      for (const [name, data] of Object.entries(sampleFiles({ version, count: 1 })))
        await store.create(`version-${version}/${name}`, data);
    }
    await manager.save({ version: 2, buffers: { other: new Uint8Array(1) } });
    await expect(importAll(prefixPlace(store, ''), manager)).rejects.toMatchObject({ code: 'Conflict' });

    bucket = new MemoryBucket();
    await using other = openManager();
    await other.save({ version: 2, buffers: { other: new Uint8Array(1) } });
    await rm(root, { recursive: true });
    await writeVersion({ version: 1, count: 1 });
    await writeVersion({ version: 3, count: 1 });
    expect(await importAll(directoryPlace(root), other)).toMatchObject({
      imported: [{ version: 3n }],
      skipped: [{ version: 1n, reason: expect.stringContaining('version 1 is not above 2') }],
    });
  });

  test('two whole directories of one version are refused before anything is imported', async () => {
    await writeVersion({ version: 1, count: 1 });
    await writeVersion({ version: 7, count: 1 });
    await writeVersion({ version: 7, count: 1 }, 'version_7');
    await expect(importAll(directoryPlace(root), manager)).rejects.toMatchObject({
      code: 'InvalidArgument',
      message: expect.stringContaining('version-7'),
    });
    expect(await versions()).toEqual([]);
    await rename(join(root, 'version_7'), join(root, 'other'));
    expect((await importAll(directoryPlace(root), manager)).imported).toHaveLength(2);
  });

  test('no versions: nothing to import', async () => {
    expect(await importAll(directoryPlace(join(root, 'none')), manager)).toEqual({
      imported: [],
      skipped: [],
    });
  });
});

function withSource(set: ShardSet, change: (source: RandomSource) => RandomSource): ShardSet {
  return { ...set, shards: set.shards.map((shard) => ({ ...shard, source: change(shard.source) })) };
}
