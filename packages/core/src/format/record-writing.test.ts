import { describe, expect, test } from 'vitest';
import { type CheckpointError, isCheckpointError } from '../contract/index.ts';
import { RECORD_BYTES_MAX_OF } from './limits.ts';
import { encodeRecord } from './record.ts';
import type { Claim, Receipt } from './record-types.ts';

const HEAD_LENGTH = '{"checksum":"sha256:'.length + 64 + 1;

const claim: Claim = { writer: 3, incarnation: 1, nonce: 'ab12', host: 'node-7', pid: 4711, life: '' };
const receipt: Receipt = {
  id: { lineage: 1, epoch: 2, version: 7n },
  writer: 3,
  incarnation: 0,
  worldSize: 4,
  files: [
    {
      name: 'model/weights.bin',
      key: 'version_7/1.2/3.0-0123abcd/model/weights.bin',
      sizeBytes: 10,
      crc32c: 0xffffffff,
      partSizeBytes: 8,
      partCrc32c: Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8),
      blake3: new Uint8Array(0),
      mode: 0o644,
      mtimeMs: 0,
    },
  ],
  bases: [{ lineage: 1, epoch: 1, version: 6n }],
  metrics: { loss: 0.25 },
  suspicions: [],
  fileLists: [],
  directories: [],
  metadata: { note: 'ü' },
};

function errorOf(run: () => unknown): CheckpointError {
  try {
    run();
  } catch (error) {
    if (isCheckpointError(error)) return error;
    throw error;
  }
  throw new Error('it was accepted');
}

function tailOf(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes.subarray(HEAD_LENGTH));
}

describe('encodeRecord refuses what it could not read again', () => {
  const refused = (value: unknown) => errorOf(() => encodeRecord('claim', value as Claim));

  test.each([
    ['a wrong type', { ...claim, pid: '1' }, 'pid is "1"; it must be a whole number'],
    ['a fraction', { ...claim, pid: 0.5 }, 'pid is 0.5'],
    ['null', { ...claim, host: null }, 'host is null'],
    ['half a surrogate pair', { ...claim, host: '\ud800' }, 'host is'],
    ['an unknown field that JSON cannot hold', { ...claim, size: 1n }, 'size is 1; it must be a JSON value'],
    ['an unknown field that is no number', { ...claim, size: Number.NaN }, 'size is NaN'],
    ['bytes in an unknown field', { ...claim, data: new Uint8Array(2) }, 'data is 2 bytes'],
    [
      'a key with half a surrogate pair',
      { ...claim, '\udc00': 1 },
      'it must be a key that UTF-8 can express',
    ],
    ['a checksum of one’s own', { ...claim, checksum: 'x' }, 'checksum is "given"; it must be absent'],
    [
      'another kind',
      { ...claim, format: { kind: 'run', major: 1, minor: 0 } },
      'format.kind is "run"; it must be "claim"',
    ],
    [
      'another major',
      { ...claim, format: { kind: 'claim', major: 2, minor: 0 } },
      'format.major is 2; it must be 1',
    ],
    [
      'too many bytes',
      { ...claim, host: 'x'.repeat(RECORD_BYTES_MAX_OF.claim) },
      `it must be at most ${RECORD_BYTES_MAX_OF.claim} bytes`,
    ],
  ])('%s', (_what, value, message) => {
    const error = refused(value);
    expect(error.code).toBe('InvalidArgument');
    expect(error.message).toContain(`a record of kind "claim" cannot be written: `);
    expect(error.message).toContain(message);
  });

  test('a structure without end', () => {
    const endless: Record<string, unknown> = {};
    endless['self'] = endless;
    expect(refused({ ...claim, endless }).code).toBe('InvalidArgument');
  });

  test('an int64 that is not safe, out of range, or rounded', () => {
    const id = { lineage: 1, epoch: 1, version: 2n ** 63n };
    expect(errorOf(() => encodeRecord('receipt', { ...receipt, id })).message).toContain(
      'id.version is 9223372036854775808',
    );
    const files = [{ ...receipt.files[0]!, sizeBytes: 2 ** 53 }];
    expect(errorOf(() => encodeRecord('receipt', { ...receipt, files })).message).toContain(
      'files[0].sizeBytes',
    );
  });

  test('a metric that is not finite', () => {
    const error = errorOf(() =>
      encodeRecord('receipt', { ...receipt, metrics: { loss: Number.POSITIVE_INFINITY } }),
    );
    expect(error.message).toContain('metrics.loss is Infinity; it must be a finite number');
  });

  test('properties that are undefined count as absent', () => {
    const value = { ...claim, host: undefined, later: undefined } as unknown as Claim;
    expect(tailOf(encodeRecord('claim', value).bytes)).toBe(
      tailOf(encodeRecord('claim', { ...claim, host: '' }).bytes),
    );
  });
});
