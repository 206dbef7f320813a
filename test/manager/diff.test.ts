import type { FileDiff } from '@holdfast/core';
import type { FileRecord } from '@holdfast/core/internal/format/index';
import { pairFiles } from '@holdfast/core/internal/plan/diff';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open } from './memory-run.ts';
import { safetensors } from './safetensors-bytes.ts';

const flat = (data: Uint8Array) => ({ shape: [data.byteLength], data });
const OLD = safetensors({
  embed: flat(bytes(700_000, 1)),
  gone: flat(bytes(10)),
  head: flat(bytes(12)),
  norm: flat(bytes(500_000, 2)),
});
const NEW = safetensors({
  embed: flat(bytes(700_000, 1)),
  extra: flat(bytes(3)),
  head: { shape: [3, 4], data: bytes(12) },
  norm: flat(bytes(500_000, 3)),
});

async function twoVersions(before: Record<string, Uint8Array>, after: Record<string, Uint8Array>) {
  const bucket = newBucket();
  const manager = open(bucket);
  await manager.save({ version: 1, buffers: before });
  await manager.save({ version: 2, buffers: after });
  return { bucket, manager };
}

const changesOf = ({ tensors }: FileDiff) => tensors?.map(({ name, change }) => `${name} ${change}`);

describe('diff by file', () => {
  test('same, changed, added, removed, by size and checksum, in the order of names; no payload is read', async () => {
    const { bucket, manager } = await twoVersions(
      { b: bytes(5), a: bytes(9, 1), c: bytes(4), d: bytes(6) },
      { b: bytes(5), a: bytes(9, 2), d: bytes(7), e: bytes(1) },
    );
    const before = bucket.keys();
    const result = await manager.admin.diff(1, 'latest');
    const rows = result.files.map((file) => [file.name, file.change, file.beforeBytes, file.afterBytes]);
    expect(rows).toEqual([
      ['a', 'changed', 9, 9],
      ['b', 'same', 5, 5],
      ['c', 'removed', 4, null],
      ['d', 'changed', 6, 7],
      ['e', 'added', null, 1],
    ]);
    expect(result).toMatchObject({ before: { version: 1n }, after: { version: 2n }, bytesRead: 0 });
    expect(result.files.every(({ tensors, note }) => tensors === null && note === '')).toBe(true);
    expect(bucket.keys()).toEqual(before);
  });

  test('a version and itself: all the same', async () => {
    const { manager } = await twoVersions({ 'm.safetensors': OLD }, { 'm.safetensors': NEW });
    const { files } = await manager.admin.diff(2, 2, { tensors: true });
    expect(files.map(({ change, tensors }) => [change, tensors])).toEqual([['same', null]]);
  });

  test('BLAKE3 decides where both have it, else the CRC32C of the file and of parts of one size', () => {
    const file = (fields: Partial<FileRecord>): FileRecord => ({
      ...{ name: 'a', key: 'k', sizeBytes: 3, crc32c: 7, partSizeBytes: 3, mode: 0, mtimeMs: 0 },
      ...{ partCrc32c: new Uint8Array(4), blake3: new Uint8Array(0) },
      ...fields,
    });
    const change = (a: Partial<FileRecord>, b: Partial<FileRecord>) =>
      pairFiles([file(a)], [file(b)]).map((pair) => pair.change);
    const [one, two] = [bytes(32, 1), bytes(32, 2)];
    expect(change({ blake3: one }, { blake3: two })).toEqual(['changed']);
    expect(change({ blake3: one }, { blake3: one })).toEqual(['same']);
    expect(change({ blake3: one }, {})).toEqual(['same']);
    expect(change({}, { crc32c: 8 })).toEqual(['changed']);
    expect(change({}, { sizeBytes: 4 })).toEqual(['changed']);
    const otherParts = { partCrc32c: bytes(4, 3) };
    expect(change({}, otherParts)).toEqual(['changed']);
    expect(change({}, { ...otherParts, partSizeBytes: 2 })).toEqual(['same']);
    expect(change({ blake3: one }, { ...otherParts, blake3: one })).toEqual(['same']);
  });

  test('a version that is not there, no run, and a version below 0 are said', async () => {
    const { manager } = await twoVersions({ a: bytes(1) }, { a: bytes(2) });
    expect(await failure(manager.admin.diff(1, 9))).toContain('NotFound: there is no version 9');
    expect(await failure(manager.admin.diff(-1, 2))).toContain('InvalidArgument: version -1');
    await using empty = open(newBucket());
    expect(await failure(empty.admin.diff(1, 2))).toContain('NotFound: there is no run');
  });
});

describe('diff by tensor', () => {
  test('added, removed and reshaped ones come from the headers: little is read', async () => {
    const { manager } = await twoVersions({ 'm.safetensors': OLD }, { 'm.safetensors': NEW });
    const { files, bytesRead } = await manager.admin.diff(1, 2);
    expect(changesOf(files[0] as FileDiff)).toEqual([
      'embed unread',
      'extra added',
      'gone removed',
      'head reshaped',
      'norm unread',
    ]);
    expect(files[0]?.tensors?.[3]).toEqual({
      ...{ name: 'head', change: 'reshaped' },
      before: { dtype: 'U8', shape: [12], sizeBytes: 12 },
      after: { dtype: 'U8', shape: [3, 4], sizeBytes: 12 },
    });
    expect(bytesRead).toBeLessThan(300_000);
  });

  test('with `tensors` every byte is read once and those that differ are told apart', async () => {
    const { manager } = await twoVersions(
      { 'm.safetensors': OLD, same: bytes(9) },
      { 'm.safetensors': NEW, same: bytes(9) },
    );
    const planned: unknown[] = [];
    const onProgress = (event: { type: string; files?: unknown }) => {
      if (event.type === 'planned') planned.push(event.files);
    };
    const { files, bytesRead } = await manager.admin.diff(1, 2, { tensors: true, onProgress });
    expect(changesOf(files[0] as FileDiff)).toEqual([
      'embed same',
      'extra added',
      'gone removed',
      'head reshaped',
      'norm changed',
    ]);
    expect(bytesRead).toBe(OLD.byteLength + NEW.byteLength);
    expect(planned).toEqual([
      [
        { name: 'm.safetensors@1', sizeBytes: OLD.byteLength },
        { name: 'm.safetensors@2', sizeBytes: NEW.byteLength },
      ],
    ]);
  });

  test('a file that is no safetensors is compared as a file, with a note; the others as ever', async () => {
    const { manager } = await twoVersions(
      { 'm.safetensors': OLD, 'x.safetensors': bytes(40, 1) },
      { 'm.safetensors': NEW, 'x.safetensors': bytes(40, 2) },
    );
    const { files } = await manager.admin.diff(1, 2);
    expect(files.map(({ name, change, note }) => [name, change, note.slice(0, 43)])).toEqual([
      ['m.safetensors', 'changed', ''],
      ['x.safetensors', 'changed', 'x.safetensors@1 is not read as safetensors:'],
    ]);
    expect(files[1]?.tensors).toBeNull();
  });

  test('a header larger than an eighth of the memory is not read: a note says so', async () => {
    const large = safetensors({ ['n'.repeat(3 << 20)]: flat(bytes(1)) });
    const { manager } = await twoVersions({ 'm.safetensors': large }, { 'm.safetensors': NEW });
    const { files, bytesRead } = await manager.admin.diff(1, 2);
    expect(files[0]?.note).toMatch(/its header has \d+ bytes; at most 2097152 are read/);
    expect(bytesRead).toBeLessThan(1 << 20);
  });

  test('damage is Corrupt, and says in which version', async () => {
    const { bucket, manager } = await twoVersions({ 'm.safetensors': OLD }, { 'm.safetensors': NEW });
    const key = bucket.keys().find((each) => each.startsWith('version_2/') && each.endsWith('.safetensors'));
    bucket.damage(key as string, (data) => data.with(900_000, (data[900_000] as number) ^ 1));
    expect(await failure(manager.admin.diff(1, 2, { tensors: true }))).toMatch(
      /^Corrupt: m\.safetensors@2 bytes/,
    );
    expect((await manager.admin.diff(1, 2)).files[0]?.change).toBe('changed');
  });

  test('stopped while it reads it ends soon, and leaves no lease behind', async () => {
    const { bucket, manager } = await twoVersions({ 'm.safetensors': OLD }, { 'm.safetensors': NEW });
    const stop = new AbortController();
    const onProgress = (event: { type: string }) => {
      if (event.type === 'bytes') stop.abort();
    };
    const stopped = manager.admin.diff(1, 2, { tensors: true, signal: stop.signal, onProgress });
    expect(await failure(stopped)).toContain('Aborted');
    expect(bucket.keys().filter((key) => key.startsWith('leases/'))).toEqual([]);
  });
});
