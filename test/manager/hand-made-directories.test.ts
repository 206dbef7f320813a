/**
 * Committed checkpoints with invalid directories and times in their records, as a hostile writer
 * may make them.
 */

import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '@holdfast/core';
import {
  catalogKey,
  decodeRecord,
  encodeRecord,
  type Manifest,
  manifestKey,
  type WriterShare,
} from '@holdfast/core/internal/format/index';
import type { MemoryBucket } from '@holdfast/core/store';
import { localFiles } from '@holdfast/local-files';
import { expect, onTestFinished, test } from 'vitest';
import { openMany } from './many-files.ts';
import { failure, newBucket, open } from './memory-run.ts';

function read(bucket: MemoryBucket, key: string): Uint8Array {
  return bucket.find(key)?.bytes ?? new Uint8Array(0);
}

/** Makes the catalog refer to another manifest for the newest checkpoint. */
function replaceManifest(bucket: MemoryBucket, change: (manifest: Manifest) => Manifest): void {
  const seq = Number(
    bucket
      .keys()
      .findLast((key) => key.startsWith('catalog/'))
      ?.slice(8, 28),
  );
  const entry = decodeRecord('catalog-entry', read(bucket, catalogKey(seq)), { key: 'entry' });
  const [checkpoint] = entry.state.checkpoints;
  if (!checkpoint) throw new Error('there is no checkpoint');
  const { manifestKey: key } = checkpoint;
  const { format: _, ...manifest } = change(decodeRecord('manifest', read(bucket, key), { key }));
  const { bytes, sha256 } = encodeRecord('manifest', manifest);
  const replaced = { ...checkpoint, manifestKey: manifestKey(checkpoint.id, sha256), manifestSha256: sha256 };
  bucket.insert(replaced.manifestKey, bytes);
  const next = {
    ...entry,
    ...{ seq: seq + 1, entryId: 'e'.repeat(32), parentId: entry.entryId },
    state: { ...entry.state, checkpoints: [replaced] },
  };
  bucket.insert(catalogKey(seq + 1), encodeRecord('catalog-entry', next).bytes);
}

const withDirectories =
  (...names: readonly string[]) =>
  ({ writers, ...rest }: Manifest): Manifest => {
    const [share] = writers as readonly [WriterShare];
    return { ...rest, writers: [{ ...share, directories: names.map((name) => ({ name, mtimeMs: 1 })) }] };
  };

async function newPlace(): Promise<string> {
  const place = await mkdtemp(join(tmpdir(), 'holdfast-hand-made-'));
  onTestFinished(() => rm(place, { recursive: true }));
  return place;
}

test.each([
  ['has the name of a file', ['a'], '"a" is both a file and an empty directory'],
  ['lies in a file', ['a/b/c'], 'needs "a" as a directory, but that is a file too'],
])('an empty directory that %s is Corrupt, and nothing is restored', async (_, names, says) => {
  const bucket = newBucket();
  await using manager = open(bucket, { files: localFiles });
  await manager.save({ version: 1, buffers: { a: new Uint8Array(1) } });
  replaceManifest(bucket, withDirectories(...names));
  const place = await newPlace();
  const answer = await failure(manager.restore({ to: join(place, 'to') }));
  expect(answer).toMatch(/^Corrupt: /);
  expect(answer).toContain(says);
  expect(await readdir(place)).toEqual([]);
  const { problems } = await manager.admin.verify({ record: false });
  expect(problems).toMatchObject([{ message: expect.stringContaining(says) }]);
});

test('an empty directory in which a file lies is made once, and the file is there', async () => {
  const bucket = newBucket();
  await using manager = open(bucket, { files: localFiles });
  await manager.save({ version: 1, buffers: { 'a/b': new Uint8Array(1) } });
  replaceManifest(bucket, withDirectories('a', 'a/c'));
  const place = await newPlace();
  await manager.restore({ to: join(place, 'to'), mtimes: true });
  expect((await readdir(join(place, 'to'), { recursive: true })).sort()).toEqual(['a', 'a/b', 'a/c']);
});

test.each([0, 65_536])(
  'a manifest that counts %i directories of a receipt with one is read all the same',
  async (directoryCount) => {
    const bucket = newBucket();
    const tree = await newPlace();
    for (const name of ['logs', 'full']) await mkdir(join(tree, name));
    await writeFile(join(tree, 'full/a'), 'a');
    const { manager } = openMany(bucket, { files: localFiles, clock: systemClock });
    await manager.save({ dir: tree });
    replaceManifest(bucket, ({ receipts, ...rest }) => ({
      ...rest,
      receipts: receipts.map((ref) => ({ ...ref, directoryCount })),
    }));
    const to = join(await newPlace(), 'to');
    await manager.restore({ to });
    expect((await readdir(to)).sort()).toEqual(['full', 'logs']);
    await manager.close();
  },
);
