/** Records that name empty directories: their minor, their order, their names and their number. */

import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { type CheckpointError, isCheckpointError } from '../contract/index.ts';
import { decodeRecord, encodeRecord } from './record.ts';
import type { Receipt, Taken } from './record-types.ts';

const where = { key: 'the key' };
const receipt: Receipt = {
  ...{ id: { lineage: 1, epoch: 2, version: 7n }, writer: 3, incarnation: 0, worldSize: 4 },
  ...{ files: [], bases: [], metrics: {}, metadata: {}, suspicions: [], fileLists: [], directories: [] },
};

/** Everything that the checksum covers. */
function tailOf(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes.subarray(85));
}

/** A record with a right checksum over whatever follows it. */
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
  const directories = [{ name: 'logs' }];
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
  const tail = tailOf(encodeRecord('receipt', { ...receipt, directories: [{ name: 'a' }] }).bytes);
  const bytes = sealed(tail.replace('[{"name":"a"}]', JSON.stringify(directories)));
  expect(errorOf(() => decodeRecord('receipt', bytes, where)).code).toBe('Corrupt');
});

test('more empty directories than a writer may have are refused, and as many are read', () => {
  const directories = Array.from({ length: 65_536 }, (_, index) => ({ name: String(100_000 + index) }));
  const { bytes } = encodeRecord('receipt', { ...receipt, directories });
  expect(decodeRecord('receipt', bytes, where).directories).toHaveLength(65_536);
  const more = { ...receipt, directories: [...directories, { name: 'x' }] };
  expect(errorOf(() => encodeRecord('receipt', more)).message).toContain('at most 65536');
  const tail = tailOf(bytes).replace('{"name":"100000"}', '{"name":"1"},{"name":"100000"}');
  expect(errorOf(() => decodeRecord('receipt', sealed(tail), where)).message).toContain('at most 65536');
});
