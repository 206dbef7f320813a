/** Records with empty directories or modification times of files: minor, order, names, numbers. */

import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { type CheckpointError, isCheckpointError } from '../contract/index.ts';
import { decodeRecord, encodeRecord } from './record.ts';
import type { FileList, FileRecord, Manifest, Receipt, Taken } from './record-types.ts';

const where = { key: 'the key' };
const receipt: Receipt = {
  ...{ id: { lineage: 1, epoch: 2, version: 7n }, writer: 3, incarnation: 0, worldSize: 4 },
  ...{ files: [], bases: [], metrics: {}, metadata: {}, suspicions: [], fileLists: [], directories: [] },
};

/** Everything that the checksum covers. */
function tailOf(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes.subarray(85));
}

/** A record with a valid checksum over the given rest. */
function sealed(tail: string): Uint8Array {
  const digest = createHash('sha256').update(tail).digest('hex');
  return new TextEncoder().encode(`{"checksum":"sha256:${digest}"${tail}`);
}

function errorOf(run: () => unknown): CheckpointError {
  try {
    run();
  } catch (error) {
    if (isCheckpointError(error)) return error;
    throw error;
  }
  throw new Error('it was accepted');
}

test('a record with an empty directory is of minor 2, also where it only counts them', () => {
  const directories = [{ name: 'logs', mtimeMs: 0 }];
  const { id, bases, metrics, metadata, suspicions } = receipt;
  const said = { bases, metrics, metadata, suspicions };
  const nothing = { bases: [], metrics: {}, metadata: {}, suspicions: [] };
  const share = { writer: 3, incarnation: 0, receiptKey: 'r', receiptSha256: new Uint8Array(32) };
  const ref = { incarnation: 0, sha256: new Uint8Array(32), fileCount: 0, sizeBytes: 0 };
  const refs = (directoryCount: number) => [{ ...ref, firstName: '', lastName: '', directoryCount }];
  const repeating = { id, worldSize: 1, ...said, receipts: [] };
  const referring = { id, worldSize: 1, ...nothing, writers: [] };
  const taken: Taken = { consistency: 'POLLUTED', stateVersion: 5n, takenAtMs: 1 };
  const minorOf = ({ bytes }: { readonly bytes: Uint8Array }) =>
    Number(/"minor":(\d+)/.exec(tailOf(bytes))?.[1] ?? 0);
  expect(minorOf(encodeRecord('receipt', { ...receipt, taken, directories }))).toBe(2);
  expect(
    minorOf(
      encodeRecord('manifest', { ...repeating, writers: [{ ...share, taken, files: [], directories }] }),
    ),
  ).toBe(2);
  expect(minorOf(encodeRecord('manifest', { ...referring, receipts: refs(1) }))).toBe(2);
  expect(minorOf(encodeRecord('manifest', { ...referring, receipts: refs(0) }))).toBe(0);
  const tail = tailOf(encodeRecord('receipt', { ...receipt, directories }).bytes);
  const older = sealed(tail.replace('"minor":2', '"minor":1'));
  expect(errorOf(() => decodeRecord('receipt', older, where)).message).toContain('minor 2 at least');
});

test.each<[string, unknown, string]>([
  ['out of order', [{ name: 'b' }, { name: 'a' }], 'in the order of their names, each name once'],
  ['twice', [{ name: 'a' }, { name: 'a' }], 'in the order of their names, each name once'],
  ['that leads outside', [{ name: '../x' }], 'directories[0].name'],
  ['that is absolute', [{ name: '/x' }], 'directories[0].name'],
  ['without a name', [{}], 'directories[0].name'],
  ['with a slash at its end', [{ name: 'a/' }], 'directories[0].name'],
  ['that is a number', [{ name: 1 }], 'directories[0].name'],
  ['that is a string', ['a'], 'directories[0]'],
])('an empty directory %s is refused, written and read', (_, directories, says) => {
  const wrong = { ...receipt, directories } as Receipt;
  const written = errorOf(() => encodeRecord('receipt', wrong));
  expect([written.code, written.message]).toEqual(['InvalidArgument', expect.stringContaining(says)]);
  const tail = tailOf(
    encodeRecord('receipt', { ...receipt, directories: [{ name: 'a', mtimeMs: 0 }] }).bytes,
  );
  const bytes = sealed(tail.replace('[{"name":"a"}]', JSON.stringify(directories)));
  expect(errorOf(() => decodeRecord('receipt', bytes, where)).code).toBe('Corrupt');
});

test('more empty directories than a writer may have are refused, and as many are read', () => {
  const directories = Array.from({ length: 65_536 }, (_, index) => ({
    ...{ name: String(100_000 + index), mtimeMs: 0 },
  }));
  const { bytes } = encodeRecord('receipt', { ...receipt, directories });
  expect(decodeRecord('receipt', bytes, where).directories).toHaveLength(65_536);
  const more = { ...receipt, directories: [...directories, { name: 'x', mtimeMs: 0 }] };
  expect(errorOf(() => encodeRecord('receipt', more)).message).toContain('at most 65536');
  const tail = tailOf(bytes).replace('{"name":"100000"}', '{"name":"1"},{"name":"100000"}');
  expect(errorOf(() => decodeRecord('receipt', sealed(tail), where)).message).toContain('at most 65536');
});

const file: FileRecord = {
  ...{
    name: 'a',
    key: 'version_7/1.2/3.0-ab/a',
    sizeBytes: 0,
    crc32c: 0,
    partSizeBytes: 0,
    mode: 0,
    mtimeMs: 0,
  },
  ...{ partCrc32c: new Uint8Array(0), blake3: new Uint8Array(0) },
};
const timed = { ...file, mtimeMs: 1 };
const { id } = receipt;
const nothing = { bases: [], metrics: {}, metadata: {}, suspicions: [] };
const share = {
  writer: 0,
  incarnation: 0,
  receiptKey: 'r',
  receiptSha256: new Uint8Array(32),
  directories: [],
};
const listOf = (one: FileRecord): FileList => ({ id, writer: 0, incarnation: 0, files: [one] });
const manifestOf = (one: FileRecord): Manifest => ({
  ...{ id, worldSize: 1, ...nothing, receipts: [] },
  writers: [{ ...share, files: [one] }],
});

test('a record with the time of a file is of minor 2, a list of minor 1; without it all is as it was', () => {
  const taken: Taken = { consistency: 'POLLUTED', stateVersion: 5n, takenAtMs: 1 };
  const formatOf = ({ bytes }: { readonly bytes: Uint8Array }) => tailOf(bytes).split('}')[0];
  for (const [one, receiptMinor, listMinor] of [
    [timed, ',"minor":2', ',"minor":1'],
    [file, '', ''],
  ] as const) {
    const said = { ...receipt, files: [one], ...(one === timed && { taken }) };
    expect(formatOf(encodeRecord('receipt', said))).toBe(
      `,"format":{"kind":"receipt","major":1${receiptMinor}`,
    );
    expect(formatOf(encodeRecord('manifest', manifestOf(one)))).toBe(
      `,"format":{"kind":"manifest","major":1${receiptMinor}`,
    );
    expect(formatOf(encodeRecord('file-list', listOf(one)))).toBe(
      `,"format":{"kind":"file-list","major":2${listMinor}`,
    );
  }
  const list = tailOf(encodeRecord('file-list', listOf(timed)).bytes).replace(',"minor":1', '');
  expect(errorOf(() => decodeRecord('file-list', sealed(list), where)).message).toContain('minor 1 at least');
});

test.each([65_537, -1, 0.5, Number.NaN])(
  'a manifest that counts %s empty directories is refused',
  (directoryCount) => {
    const ref = { incarnation: 0, sha256: new Uint8Array(32), fileCount: 0, sizeBytes: 0 };
    const receipts = [{ ...ref, firstName: '', lastName: '', directoryCount }];
    const wrong = errorOf(() =>
      encodeRecord('manifest', { id, worldSize: 1, ...nothing, writers: [], receipts }),
    );
    expect([wrong.code, wrong.message]).toEqual([
      'InvalidArgument',
      expect.stringContaining('receipts[0].directoryCount'),
    ]);
  },
);

test.each([1, 253_402_300_799_999])('a time of %i ms is written and read', (mtimeMs) => {
  const directories = [{ name: 'd', mtimeMs }];
  const { bytes } = encodeRecord('receipt', { ...receipt, files: [{ ...file, mtimeMs }], directories });
  expect(decodeRecord('receipt', bytes, where)).toMatchObject({ files: [{ mtimeMs }], directories });
});

test.each([
  [-1, '"-1"'],
  [253_402_300_800_000, '"253402300800000"'],
  [2 ** 63, '"9223372036854775808"'],
  [1.5, '"1.5"'],
  [Number.NaN, '"NaN"'],
  [Number.POSITIVE_INFINITY, '"Infinity"'],
  ['1', '1'],
  [null, 'null'],
  [undefined, '"0"'],
  ['', '""'],
])('a time of %s is refused of a file and of a directory, written and read', (mtimeMs, json) => {
  const odd = { mtimeMs } as { mtimeMs: number };
  const directory = { name: 'd', mtimeMs: 1 };
  if (mtimeMs !== undefined) {
    for (const wrong of [{ files: [{ ...file, ...odd }] }, { directories: [{ ...directory, ...odd }] }])
      expect(errorOf(() => encodeRecord('receipt', { ...receipt, ...wrong })).message).toContain(
        'mtimeMs is',
      );
  }
  for (const right of [{ files: [timed] }, { directories: [directory] }]) {
    const tail = tailOf(encodeRecord('receipt', { ...receipt, ...right }).bytes);
    const bytes = sealed(tail.replace('"mtimeMs":"1"', `"mtimeMs":${json}`));
    expect(errorOf(() => decodeRecord('receipt', bytes, where)).code).toBe('Corrupt');
  }
});
