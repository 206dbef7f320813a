/**
 * Sources whose changes show only in their bytes. The bytes are read twice, and must be the same
 * both times.
 */

import { readAgain } from '@holdfast/core';
import { blake3 } from '@holdfast/core/internal/format/index';
import { KnownFiles } from '@holdfast/core/internal/plan/known-files';
import type { UploadItem } from '@holdfast/core/internal/transfer/index';
import { crc32c } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import {
  bytesOf,
  failureOf,
  fileItem,
  isEqual,
  isWhole,
  MIB,
  NotedSource,
  PART,
  recordOf,
  setUp,
} from './memory-transfers.ts';

/** Its first byte changes right before the n-th read. */
function changingAt(data: Uint8Array, reading: number): NotedSource {
  let readings = 0;
  return new NotedSource(data, {
    mayHideChanges: true,
    before: (step) => {
      if (step === 'readInto' && readings++ === reading) data[0] = (data[0] ?? 0) ^ 1;
    },
  });
}

/** The item, with a known file of these bytes that is already in the store. */
function among(item: UploadItem, data: Uint8Array): UploadItem {
  const base = { lineage: 1, epoch: 1, version: 3n };
  return {
    ...item,
    known: new KnownFiles([{ ...recordOf('a', 'data/known', data, PART), blake3: blake3(data), base }]),
  };
}

describe.each([
  ['in one part', PART - 1, 1],
  ['in parts', 5 * PART + 17, 6],
])('a file %s', (_, size, partCount) => {
  test.each([true, false])(
    'is read twice where changes may hide, and else once (%s)',
    async (mayHideChanges) => {
      const { bucket, transfers } = setUp();
      const data = bytesOf(size);
      const source = new NotedSource(data, { mayHideChanges });
      const [file] = await transfers.upload([fileItem('a', source)]);
      expect(file).toEqual(recordOf('a', 'data/a.0', data, PART));
      expect(isEqual(bucket.find('data/a.0')?.bytes, data)).toBe(true);
      expect(source.reads).toHaveLength(mayHideChanges ? 2 * partCount : partCount);
      expect([bucket.openUploads(), isWhole(transfers)]).toEqual([[], true]);
    },
  );

  test.each(['upload', 'checksum', 'known'] as const)(
    '%s: changed between its two readings it is SourceChanged, and nothing is left',
    async (call) => {
      for (let reading = 1; reading <= partCount; reading++) {
        const { bucket, transfers } = setUp();
        const data = bytesOf(size);
        const plain = fileItem('a', changingAt(data, reading));
        const item = call === 'known' ? among(plain, data.slice()) : plain;
        const sending = call === 'checksum' ? transfers.checksum([item]) : transfers.upload([item]);
        const { code, message, context } = await failureOf(sending);
        expect([code, context.name]).toEqual(['SourceChanged', 'a']);
        expect(message).toContain(`bytes 0 to ${Math.min(size, PART) - 1} `);
        expect([bucket.keys(), bucket.openUploads(), isWhole(transfers)]).toEqual([[], [], true]);
      }
    },
  );

  test('changed after its second reading it is what it was at the moment between the two', async () => {
    const { bucket, transfers } = setUp();
    const [data, wanted] = [bytesOf(size), bytesOf(size)];
    await transfers.upload([fileItem('a', changingAt(data, partCount + 1))]);
    expect(isEqual(bucket.find('data/a.0')?.bytes, wanted)).toBe(true);
  });
});

test('an empty file is not read at all', async () => {
  const source = new NotedSource(bytesOf(0), { mayHideChanges: true });
  await setUp().transfers.upload([fileItem('a', source)]);
  expect(source.reads).toEqual([]);
});

describe('readAgain', () => {
  const data = bytesOf(2 * MIB + 7);
  const options = { name: 'a', crc32c: crc32c(data) };

  test('reads all of it once more, in pieces', async () => {
    const source = new NotedSource(data, { mayHideChanges: true });
    await readAgain(source, options);
    expect(source.reads).toEqual([0, MIB, 2 * MIB]);
  });

  test('other bytes are SourceChanged', async () => {
    const source = new NotedSource(bytesOf(2 * MIB + 7, 2), { mayHideChanges: true });
    expect(await failureOf(readAgain(source, options))).toMatchObject({
      code: 'SourceChanged',
      context: { name: 'a' },
    });
  });

  test('reads nothing where no change can hide', async () => {
    const source = new NotedSource(bytesOf(2 * MIB + 7, 2));
    await readAgain(source, options);
    expect(source.reads).toEqual([]);
  });

  test('stops at a signal', async () => {
    const stop = new AbortController();
    const source = new NotedSource(data, { mayHideChanges: true, before: () => stop.abort() });
    const reading = readAgain(source, { ...options, signal: stop.signal });
    expect(await failureOf(reading)).toMatchObject({ code: 'Aborted' });
    expect(source.reads).toEqual([0]);
  });
});
