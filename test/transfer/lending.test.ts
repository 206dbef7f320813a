/** Files of one store as sources for uploads to another. */

import type { StoredFile } from '@holdfast/core/internal/plan/stored-file';
import type { Transfers, UploadItem } from '@holdfast/core/internal/transfer/index';
import { FAULTS, refuse, scriptedFaults } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import {
  bytesItem,
  bytesOf,
  failureOf,
  freshKeys,
  isEqual,
  isWhole,
  MIB,
  PART,
  recordOf,
  type SetUpOptions,
  setUp,
} from './memory-transfers.ts';

/** Two stores and their transfers, with files in the first. */
async function twoSides(contents: readonly Uint8Array[], from: SetUpOptions = {}, to: SetUpOptions = {}) {
  const plain = setUp();
  const items = contents.map((bytes, index) => bytesItem(`file-${index}`, bytes));
  const files = await plain.transfers.upload(items);
  const source = setUp({ ...from, bucket: plain.bucket });
  return { source, target: setUp(to), files };
}

async function copy(from: Transfers, to: Transfers, files: readonly StoredFile[], signal?: AbortSignal) {
  const loan = from.lend({ signal });
  try {
    const items = files.map(
      (file): UploadItem => ({
        name: file.name,
        key: freshKeys(file.name),
        source: { lent: loan.lend(file) },
      }),
    );
    return await to.upload(items, { signal });
  } finally {
    await loan.end();
  }
}

describe('a copy', () => {
  test('has the bytes, size and checksums of the original, whatever the size', async () => {
    const contents = [0, 1, PART - 1, PART, PART + 1, 3 * PART, 10 * PART + 7].map((length) =>
      bytesOf(length),
    );
    const { source, target, files } = await twoSides(contents);
    const copies = await copy(source.transfers, target.transfers, files);
    for (const [index, bytes] of contents.entries()) {
      const { key, ...record } = copies[index] as StoredFile;
      expect({ ...record, key: '' }).toEqual({ ...files[index], key: '' });
      expect(isEqual(target.bucket.find(key)?.bytes, bytes)).toBe(true);
    }
    expect([isWhole(source.transfers), isWhole(target.transfers)]).toEqual([true, true]);
  });

  test('I11: many large files pass through the memory of the borrower; the lender has none of its own', async () => {
    const contents = Array.from({ length: 8 }, (_, index) => bytesOf(4 * MIB, index));
    const capabilities = { preferredConcurrency: 64, preferredPartConcurrency: 64 };
    const slow = { bufferBytes: 16 * MIB, partSizeBytesMin: MIB };
    const { source, target, files } = await twoSides(
      contents,
      { capabilities },
      { capabilities, settings: slow },
    );
    await copy(source.transfers, target.transfers, files);
    expect(source.transfers.memory.peakBytes).toBe(0);
    expect(target.transfers.memory.peakBytes).toBeLessThanOrEqual(16 * MIB);
    // Reading continues while parts wait to be sent.
    expect(target.transfers.memory.peakBytes).toBeGreaterThan(8 * MIB);
  });

  test('in parts that are whole parts of the original, so that each is compared before it is sent', async () => {
    const bytes = bytesOf(10 * PART);
    const { source, target, files } = await twoSides([bytes]);
    const key = files[0]?.key as string;
    const inThrees = recordOf('file-0', key, bytes, 3 * PART);
    const [copied] = await copy(source.transfers, target.transfers, [inThrees]);
    expect(copied?.partSizeBytes).toBe(3 * PART);
    expect(source.store.calls.filter((call) => call.operation === 'readInto').length).toBe(4);
  });
});

describe('damage', () => {
  test('a part that does not match is never sent', async () => {
    const { source, target, files } = await twoSides([bytesOf(4 * PART)]);
    const key = files[0]?.key as string;
    source.bucket.damage(key, (bytes) => bytes.fill(0, PART + 1, PART + 2));
    const error = await failureOf(copy(source.transfers, target.transfers, files));
    expect(error).toMatchObject({
      code: 'Corrupt',
      context: { lent: true, range: { start: PART, end: 2 * PART } },
    });
    expect(target.store.calls.some((call) => call.operation === 'putPart' && call.partIndex === 1)).toBe(
      false,
    );
    expect([target.bucket.keys(), target.bucket.openUploads()]).toEqual([[], []]);
  });

  test('a record that makes no sense is refused before anything is read', async () => {
    const { source, target, files } = await twoSides([bytesOf(4 * PART)]);
    const bad = { ...(files[0] as StoredFile), partSizeBytes: 7 };
    const error = await failureOf(copy(source.transfers, target.transfers, [bad]));
    expect(error).toMatchObject({ code: 'Corrupt', context: { lent: true } });
    expect(source.store.calls).toEqual([]);
  });
});

describe('failures', () => {
  test('a read that fails for a while is repeated by the lender', async () => {
    const plan = scriptedFaults({ operation: 'readInto', fault: refuse('Unavailable'), times: 3 });
    const { source, target, files } = await twoSides([bytesOf(5 * PART)], { plan });
    await copy(source.transfers, target.transfers, files);
    expect(target.bucket.keys().length).toBe(1);
  });

  test('a read without an answer is stopped and sent again', async () => {
    const plan = scriptedFaults({ operation: 'readInto', fault: FAULTS.stall, times: 2 });
    const { source, target, files } = await twoSides([bytesOf(5 * PART)], { plan });
    await copy(source.transfers, target.transfers, files);
    expect(target.bucket.keys().length).toBe(1);
  });

  test('a read that fails for good ends the copy, and nothing is left of it', async () => {
    const plan = scriptedFaults({ operation: 'readInto', skip: 2, fault: refuse('Denied') });
    const { source, target, files } = await twoSides([bytesOf(20 * PART), bytesOf(PART)], { plan });
    expect((await failureOf(copy(source.transfers, target.transfers, files))).code).toBe('Denied');
    expect(target.bucket.openUploads()).toEqual([]);
    expect(isWhole(target.transfers)).toBe(true);
  });

  test('a destination that fails for good stops the reads', async () => {
    const plan = scriptedFaults({ operation: 'putPart', skip: 2, fault: refuse('StorageFull') });
    const { source, target, files } = await twoSides([bytesOf(200 * PART)], {}, { plan });
    expect((await failureOf(copy(source.transfers, target.transfers, files))).code).toBe('StorageFull');
    expect(source.store.calls.length).toBeLessThan(100);
    expect(isWhole(target.transfers)).toBe(true);
  });

  test('a read in progress ends soon after the caller stops: there is no wait for a read without an answer', async () => {
    const plan = scriptedFaults({ operation: 'readInto', skip: 3, fault: FAULTS.stall, times: 1000 });
    const { source, target, files } = await twoSides([bytesOf(50 * PART)], { plan });
    const stop = new AbortController();
    const copying = failureOf(copy(source.transfers, target.transfers, files, stop.signal));
    while (source.store.calls.length < 5) await new Promise((resolve) => setImmediate(resolve));
    const beganMs = target.clock.monotonicMs();
    stop.abort();
    expect((await copying).code).toBe('Aborted');
    expect(target.clock.monotonicMs() - beganMs).toBeLessThan(1000);
  });

  test('memory that a read still owns when both sides have given up stays out of use', async () => {
    const never = new Promise<number>(() => undefined);
    const { source, target, files } = await twoSides([bytesOf(2 * PART)]);
    source.store.readInto = () => never; // it does not even end when it is stopped
    const stop = new AbortController();
    const copying = failureOf(copy(source.transfers, target.transfers, files, stop.signal));
    await new Promise((resolve) => setImmediate(resolve));
    stop.abort();
    expect((await copying).code).toBe('Aborted');
    expect(target.transfers.memory.freeBytes).toBe(target.transfers.memory.totalBytes - 2 * PART);
  });

  test('closing the lender ends the copy', async () => {
    const plan = scriptedFaults({ operation: 'readInto', skip: 3, fault: FAULTS.stall, times: 1000 });
    const { source, target, files } = await twoSides([bytesOf(50 * PART)], { plan });
    const copying = failureOf(copy(source.transfers, target.transfers, files));
    while (source.store.calls.length < 5) await new Promise((resolve) => setImmediate(resolve));
    await source.transfers.close();
    expect((await copying).message).toBe('the manager was closed');
    expect(isWhole(target.transfers)).toBe(true);
  });
});
