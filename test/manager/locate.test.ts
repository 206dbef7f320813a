import type { MemoryBucket } from '@holdfast/core/store';
import { expect, test } from 'vitest';
import { bytes, failure, newBucket, open } from './memory-run.ts';

const FILES = { 'model.safetensors': bytes(100, 1), 'sub/config.json': bytes(10, 2) };

/** The object that a URI names. */
function found(bucket: MemoryBucket, uri: string): Uint8Array | undefined {
  const key = bucket.keys().find((each) => uri.endsWith(`/${each}`));
  return key === undefined ? undefined : bucket.find(key)?.bytes;
}

test('what one writer has saved lies below one prefix, under its names', async () => {
  const bucket = newBucket();
  await using manager = open(bucket);
  await manager.save({ version: 7, buffers: FILES });
  const { id, prefixUri, files } = await manager.admin.locate();
  expect(id.version).toBe(7n);
  expect(prefixUri).toMatch(/\/version_7\/1\.1\/0\.0-[0-9a-f]+\/$/);
  expect(files.map(({ name, writer, sizeBytes, uri }) => [name, writer, sizeBytes, uri])).toEqual(
    Object.entries(FILES).map(([name, { byteLength }]) => [name, 0, byteLength, `${prefixUri}${name}`]),
  );
  for (const { name, uri } of files) expect(found(bucket, uri)).toEqual(FILES[name as keyof typeof FILES]);
});

test('files that are shared with an older version have no prefix, and are found', async () => {
  const bucket = newBucket();
  await using manager = open(bucket);
  // The strong hashes are there from the second save on.
  for (const version of [1, 2, 3])
    await manager.save({ version, buffers: { ...FILES, other: bytes(50, version) } });
  const { prefixUri, files } = await manager.admin.locate({ version: 3 });
  expect(prefixUri).toBeNull();
  for (const { name, sizeBytes, uri } of files)
    expect([name, found(bucket, uri)?.byteLength]).toEqual([name, sizeBytes]);
});

test('several writers have no common prefix', async () => {
  const bucket = newBucket();
  const writers = [0, 1].map((index) => open(bucket, { attempt: 'job', writer: { index, count: 2 } }));
  await Promise.all(
    writers.map((manager, index) => manager.save({ version: 1, buffers: { [`rank-${index}`]: bytes(9) } })),
  );
  const { prefixUri, files } = await (writers[0] as (typeof writers)[0]).admin.locate();
  expect([prefixUri, files.map(({ name, writer }) => [name, writer])]).toEqual([
    null,
    [
      ['rank-0', 0],
      ['rank-1', 1],
    ],
  ]);
  for (const manager of writers) await manager.close();
});

test('a prefix with other objects is not told', async () => {
  const bucket = newBucket();
  await using manager = open(bucket);
  await manager.save({ version: 1, buffers: FILES });
  const key = bucket.keys().find((each) => each.endsWith('/model.safetensors')) as string;
  bucket.insert(`${key}.left`, bytes(1));
  expect((await manager.admin.locate()).prefixUri).toBeNull();
});

test('no file, and no version', async () => {
  const bucket = newBucket();
  await using manager = open(bucket);
  expect(await failure(manager.admin.locate())).toMatch(/^NotFound: /);
  await manager.save({ version: 1, buffers: { a: bytes(1) } });
  expect(await failure(manager.admin.locate({ version: 2 }))).toMatch(/^NotFound: /);
});
