import { describe, expect, test } from 'vitest';
import { decodeRecord, type FileRecord, type Manifest, type Receipt, receiptKey } from '../format/index.ts';
import { type AssembledManifest, Assembly, type StoredReceipt } from './assemble.ts';
import { fileListRef } from './file-lists.ts';

const id = { lineage: 1, epoch: 1, version: 3n };
const LIMITS = { filesBytesMax: 100, repeatedBytesMax: 1000 };

function fileOf(name: string): FileRecord {
  const key = `version_3/1.1/0.0-ab/${name}`;
  const nothing = new Uint8Array(0);
  return {
    ...{ name, key, sizeBytes: 0, crc32c: 0, partSizeBytes: 0, mode: 0, mtimeMs: 0 },
    partCrc32c: nothing,
    blake3: nothing,
  };
}

function stored(writer: number, recordBytes: number, changes: Partial<Receipt> = {}): StoredReceipt {
  const receipt = {
    ...{
      id,
      writer,
      incarnation: 0,
      worldSize: 2,
      files: [fileOf(`w${writer}`)],
      fileLists: [],
      directories: [],
    },
    ...{ bases: [], metrics: {}, metadata: { note: `of ${writer}` }, suspicions: [] },
    ...changes,
  };
  const sha256 = new Uint8Array(32).fill(writer);
  return { key: receiptKey(id, writer, 0), sha256, receipt, recordBytes };
}

function assembled(receipts: readonly StoredReceipt[]): AssembledManifest & { readonly manifest: Manifest } {
  const assembly = new Assembly(id, receipts.length, LIMITS);
  for (const each of receipts) {
    assembly.add(each);
    assembly.addFiles(each.receipt.files);
  }
  const whole = assembly.finish();
  return { ...whole, manifest: decodeRecord('manifest', whole.bytes, { key: whole.key }) };
}

describe('a manifest', () => {
  test('repeats its receipts while they have together no more bytes than it may repeat', () => {
    const { manifest, fileCount } = assembled([stored(0, 500), stored(1, 500)]);
    expect(manifest.receipts).toEqual([]);
    expect(manifest.writers.map(({ files }) => files.map(({ name }) => name))).toEqual([['w0'], ['w1']]);
    expect([manifest.format?.major, manifest.metadata, fileCount]).toEqual([1, { note: 'of 0' }, 2]);
  });

  test('refers to them where readers would need too much memory for it, however few its bytes', () => {
    const names = (writer: number) =>
      Object.fromEntries(Array.from({ length: 95_000 }, (_, index) => [`${writer}.${index}`, '']));
    const receipts = [0, 1, 2].map((writer) =>
      stored(writer, 100, { worldSize: 3, metadata: names(writer) }),
    );
    const { manifest } = assembled(receipts);
    expect(manifest).toMatchObject({ writers: [], metadata: {}, format: { major: 2 } });
    expect(manifest.receipts).toHaveLength(3);
  });

  test('refers to them where they have a byte more, and leaves the rest to them', () => {
    const { manifest, fileCount, writers } = assembled([stored(0, 500), stored(1, 501)]);
    expect(manifest).toMatchObject({ writers: [], metadata: {}, format: { major: 2 } });
    expect(manifest.receipts).toEqual([
      {
        incarnation: 0,
        sha256: new Uint8Array(32),
        fileCount: 1,
        sizeBytes: 0,
        firstName: 'w0',
        lastName: 'w0',
        directoryCount: 0,
      },
      {
        incarnation: 0,
        sha256: new Uint8Array(32).fill(1),
        fileCount: 1,
        sizeBytes: 0,
        firstName: 'w1',
        lastName: 'w1',
        directoryCount: 0,
      },
    ]);
    expect([fileCount, writers]).toEqual([2, [0, 1].map((writer) => ({ writer, incarnation: 0 }))]);
  });

  test('refers to receipts where one has file lists, however small', () => {
    const fileLists = [fileListRef([fileOf('a')], new Uint8Array(32))];
    const { manifest } = assembled([stored(0, 10), stored(1, 10, { files: [], fileLists })]);
    expect(manifest.receipts.map(({ fileCount }) => fileCount)).toEqual([1, 1]);
  });

  test('a manifest of 65,536 writers with the longest names fits one record', () => {
    const name = `"${'"'.repeat(200)}/${'"'.repeat(200)}`;
    const receipts = Array.from({ length: 65_536 }, (_, writer) =>
      stored(writer, 500, {
        ...{ incarnation: 2 ** 32 - 1, worldSize: 65_536 },
        files: [{ ...fileOf(name), sizeBytes: 0 }],
      }),
    );
    const { bytes } = assembled(receipts);
    expect(bytes.length).toBeLessThan(16 * 1024 * 1024);
  });
});

test('the catalog gets 256 metrics at most, the lowest writers first, and few suspicions', () => {
  const some = (from: number, count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`m${from + index}`, from]));
  const suspicions = (writer: number) =>
    Array.from({ length: 50 }, (_, index) => `${writer}.${index} ${'x'.repeat(100)}`);
  const {
    metrics,
    suspicions: few,
    manifest,
  } = assembled([
    stored(0, 10, { metrics: some(0, 200), suspicions: suspicions(0) }),
    stored(1, 10, { metrics: some(100, 200), suspicions: suspicions(1) }),
  ]);
  expect(Object.keys(metrics)).toHaveLength(256);
  expect([metrics.m0, metrics.m199, metrics.m200, metrics.m255, metrics.m256]).toEqual([
    0,
    0,
    100,
    100,
    undefined,
  ]);
  expect(few.join('').length).toBeLessThan(8100);
  expect(few.at(-1)).toBe(`and ${100 - (few.length - 1)} more`);
  expect(manifest.suspicions).toHaveLength(100);
});
