import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { type CheckpointError, isCheckpointError } from '../contract/index.ts';
import { RECORD_BYTES_MAX, RECORD_BYTES_MAX_OF } from './limits.ts';
import { decodeRecord, encodeRecord } from './record.ts';
import type { CatalogEntry, Claim, Receipt, RecordKind } from './record-types.ts';

const where = { key: 'some/record.json', store: 'memory://test' };
const HEAD_LENGTH = '{"checksum":"sha256:'.length + 64 + 1;

const PAYLOAD_KEY = 'version_7/1.2/3.0-0123abcd/model/weights.bin';
const MANIFEST_KEY = 'version_7/1.2/manifest-0123456789abcdef.json';

const claim: Claim = { writer: 3, incarnation: 1, nonce: 'ab12', host: 'node-7', pid: 4711, life: '' };
const receipt: Receipt = {
  id: { lineage: 1, epoch: 2, version: 7n },
  writer: 3,
  incarnation: 0,
  worldSize: 4,
  files: [
    {
      name: 'model/weights.bin',
      key: PAYLOAD_KEY,
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

/** A file with a valid checksum over the given rest. */
function sealed(rest: string | Uint8Array): Uint8Array {
  const tail = typeof rest === 'string' ? new TextEncoder().encode(rest) : rest;
  const digest = createHash('sha256').update(tail).digest('hex');
  return Buffer.concat([Buffer.from(`{"checksum":"sha256:${digest}"`), tail]);
}

const sealedClaim = (members: string) => sealed(`,"format":{"kind":"claim","major":1}${members}}\n`);

function errorOf(run: () => unknown): CheckpointError {
  try {
    run();
  } catch (error) {
    if (isCheckpointError(error)) return error;
    throw error;
  }
  throw new Error('it was accepted');
}

const refusal = (bytes: Uint8Array, kind: RecordKind = 'claim') =>
  errorOf(() => decodeRecord(kind, bytes, where));

function tailOf(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes.subarray(HEAD_LENGTH));
}

const state: CatalogEntry['state'] = {
  lineage: 1,
  epoch: 1,
  attempt: 'a',
  attemptDrawn: false,
  pastAttempts: [],
  worldSize: 2,
  incarnations: { 1: 4 },
  top: 7n,
  checkpoints: [
    {
      id: { lineage: 1, epoch: 1, version: 7n },
      manifestKey: MANIFEST_KEY,
      manifestSha256: new Uint8Array(32),
      sizeBytes: 1,
      fileCount: 1,
      metrics: {},
      state: 'LIVE',
      retiringSeq: 0,
      pins: [],
      verified: true,
      suspect: false,
      reason: '',
      committedAtMs: 1,
      bases: [],
      rolledBack: false,
      retiringAtMs: 0,
      graceMs: 0,
      storedBytes: 0,
      annotatedMetadata: {},
    },
  ],
  abandoned: [],
  removedRing: [],
  txnRing: [],
  pages: [],
  skippedManifests: [],
};
const entry: CatalogEntry = {
  runId: 'r',
  seq: 1,
  entryId: 'e',
  parentId: '',
  transaction: {
    id: 't',
    kind: 'commit',
    lineage: 1,
    epoch: 1,
    reason: '',
    host: '',
    pid: 0,
    atMs: 0,
    checkpoints: [],
    attempt: '',
  },
  state,
};

describe('a damaged record', () => {
  test('a wrong checksum names the key, what was expected and what was found', () => {
    const bytes = encodeRecord('claim', claim).bytes;
    bytes[HEAD_LENGTH + 20]! ^= 1;
    const error = refusal(bytes);
    expect(error.code).toBe('Corrupt');
    expect(error.message).toContain('some/record.json is damaged: its checksum says sha256');
    expect(error.message).toContain(String(error.context.expected));
    expect(error.message).toContain(String(error.context.found));
    expect(error.context).toMatchObject({ ...where, found: expect.stringMatching(/^[0-9a-f]{64}$/) });
  });

  test.each([
    ['no bytes', new Uint8Array(0)],
    ['other JSON', new TextEncoder().encode('{"format":{}}')],
    ['upper-case digits', new TextEncoder().encode(`{"checksum":"sha256:${'A'.repeat(64)}"}\n`)],
    ['another hash', new TextEncoder().encode(`{"checksum":"sha512:${'a'.repeat(64)}"}\n`)],
  ])('%s: says how a record begins', (_what, bytes) => {
    const error = refusal(bytes);
    expect(error.code).toBe('Corrupt');
    expect(error.message).toContain('should begin with {"checksum":"sha256:<64 hex digits>"');
  });

  test('a record over the limit is refused before it is hashed', () => {
    for (const [kind, bytesMax] of Object.entries(RECORD_BYTES_MAX_OF) as [RecordKind, number][]) {
      const error = refusal(new Uint8Array(bytesMax + 1), kind);
      expect(error.code).toBe('Corrupt');
      expect(error.message).toContain(
        `has ${bytesMax + 1} bytes; a record of kind "${kind}" has at most ${bytesMax}`,
      );
    }
    expect(Math.max(...Object.values(RECORD_BYTES_MAX_OF))).toBe(RECORD_BYTES_MAX);
  });

  test.each([
    ['no JSON', sealed(',\n'), 'not JSON'],
    ['two values', sealed(',"format":{"kind":"claim","major":1}}{}\n'), 'not JSON'],
    [
      'no UTF-8',
      sealed(Buffer.from(',"format":{"kind":"claim","major":1},"a":"\xff"}\n', 'latin1')),
      'not JSON in UTF-8',
    ],
    ['no format', sealed('}\n'), 'its format.kind is none, expected "claim"'],
    ['a format that is null', sealed(',"format":null}\n'), 'its format.kind is none'],
    ['a format that is a string', sealed(',"format":"claim"}\n'), 'its format.kind is none'],
    [
      'another kind',
      encodeRecord('receipt', receipt).bytes,
      'its format.kind is "receipt", expected "claim"',
    ],
    ['no major', sealed(',"format":{"kind":"claim"}}\n'), 'its format.major is not a whole number'],
    ['major 0', sealed(',"format":{"kind":"claim","major":0}}\n'), 'its format.major is not a whole number'],
    ['a broken minor', sealed(',"format":{"kind":"claim","major":1,"minor":"x"}}\n'), 'format.minor is "x"'],
  ])('%s', (_what, bytes, message) => {
    const error = refusal(bytes);
    expect(error.code).toBe('Corrupt');
    expect(error.message).toContain(message);
  });

  test.each([
    ['white space', sealed(',"format":{"kind":"claim","major":1}, "pid":1}\n')],
    ['no newline at the end', sealed(',"format":{"kind":"claim","major":1}}')],
    ['keys out of order', sealedClaim(',"writer":1,"pid":1')],
    ['format not first', sealed(',"a":1,"format":{"kind":"claim","major":1}}\n')],
    ['a key twice', sealedClaim(',"pid":1,"pid":1')],
    ['an unknown key twice', sealedClaim(',"zz":1,"zz":2')],
    ['a second checksum', sealedClaim(',"checksum":"x"')],
    ['a default written out', sealedClaim(',"pid":0')],
    ['a number spelled otherwise', sealedClaim(',"pid":1.0')],
    ['a string spelled otherwise', sealedClaim(',"host":"\\u0061"')],
    ['an unknown number spelled otherwise', sealedClaim(',"zz":10e0')],
    ['an empty map written out', sealed(',"format":{"kind":"claim","major":1,"minor":0}}\n')],
  ])('%s: is not the one spelling of the value', (_what, bytes) => {
    const error = refusal(bytes);
    expect(error.code).toBe('Corrupt');
    expect(error.message).toMatch(
      /is not in canonical form .*: from byte \d+ on it has ".*" where .* is expected/s,
    );
  });

  test.each([
    ['pid', '"1"', 'pid is "1"; it must be a whole number from 0 to 4294967295'],
    ['pid', '-1', 'pid is -1'],
    ['pid', '1.5', 'pid is 1.5'],
    ['pid', '4294967296', 'pid is 4294967296'],
    ['pid', 'null', 'pid is null'],
    ['host', '7', 'host is 7; it must be a string'],
    ['host', '"\\ud800"', 'host is "\\ud800"; it must be a string that UTF-8 can express'],
    ['zz', '1e400', 'zz is Infinity; it must be a JSON value'],
    ['zz', '"\\udfff"', 'zz is "\\udfff"; it must be a JSON value'],
  ])('claim: %s %s', (field, json, message) => {
    const error = refusal(sealedClaim(`,"${field}":${json}`));
    expect(error.code).toBe('Corrupt');
    expect(error.message).toContain(`some/record.json is damaged: ${message}`);
    expect(error.context).toMatchObject({ ...where, path: field });
  });

  test.each([
    ['"version":"7"', '"version":"-1"', 'id.version is -1; it must be at least 0'],
    [
      '"version":"7"',
      '"version":"9223372036854775808"',
      'id.version is "9223372036854775808"; it must be a whole number from -2^63',
    ],
    ['"version":"7"', '"version":"07"', 'id.version is "07"'],
    ['"version":"7"', '"version":"-0"', 'id.version is "-0"'],
    ['"version":"7"', '"version":"7.0"', 'id.version is "7.0"'],
    ['"version":"7"', '"version":7', 'id.version is 7; it must be a whole number'],
    [
      '"sizeBytes":"10"',
      '"sizeBytes":"9007199254740992"',
      'files[0].sizeBytes is "9007199254740992"; it must be a whole number within ±(2^53 - 1)',
    ],
    ['"sizeBytes":"10"', '"sizeBytes":"-10"', 'files[0].sizeBytes is -10; it must be at least 0'],
    [
      '"sizeBytes":"10"',
      '"sizeBytes":"17"',
      'files[0].partCrc32c is 8 bytes; it must be 4 bytes for each part',
    ],
    ['"partSizeBytes":"8",', '', 'files[0].partCrc32c is 8 bytes; it must be 4 bytes for each part'],
    [
      'AQIDBAUGBwg=',
      'AQIDBAUGBwg',
      'files[0].partCrc32c is "AQIDBAUGBwg"; it must be bytes in standard base64',
    ],
    ['AQIDBAUGBwg=', 'AQIDBAUGBw_=', 'it must be bytes in standard base64'],
    ['AQIDBAUGBwg=', 'AQIDBAUGBwh=', 'it must be bytes in standard base64'],
    [
      '"name":"model/weights.bin"',
      '"name":"../../etc/passwd"',
      'files[0].name is "../../etc/passwd"; it must be a relative path',
    ],
    ['"key":"version_7/', '"key":"../version_7/', 'files[0].key is'],
    ['"mode":420', '"mode":512', 'files[0].mode is 512; it must be permission bits'],
    ['"loss":0.25', '"loss":"NaN"', 'metrics.loss is "NaN"; it must be a finite number'],
    ['"loss":0.25', '"loss":1e999', 'metrics.loss is Infinity'],
    ['"metrics":{"loss":0.25}', '"metrics":[]', 'metrics is an array; it must be an object'],
    ['"note":"ü"', '"note":"ü","\\udc00":""', 'metadata'],
    ['"files":[', '"files":[[],', 'files[0] is an array; it must be an object'],
    ['"bases":[', '"bases":[null,', 'bases[0] is null; it must be an object'],
    [
      '"bases":[{"epoch":1,"lineage":1,"version":"6"}]',
      '"bases":{}',
      'bases is an object; it must be an array',
    ],
    [',"id":{"epoch":2,"lineage":1,"version":"7"}', '', 'id is absent; it must be an object'],
  ])('receipt: %s as %s', (from, to, message) => {
    const before = tailOf(encodeRecord('receipt', receipt).bytes);
    const after = before.replace(from, to);
    expect(after).not.toBe(before);
    const error = refusal(sealed(after), 'receipt');
    expect(error.code).toBe('Corrupt');
    expect(error.message).toContain(message);
  });

  test.each([
    ['"seq":"1"', '"seq":"-1"', 'seq is -1; it must be at least 1'],
    ['"seq":"1",', '', 'seq is 0; it must be at least 1'],
    ['"state":"LIVE"', '"state":"GONE"', 'state.checkpoints[0].state is "GONE"; it must be one of'],
    [
      '"state":"LIVE",',
      '',
      'state.checkpoints[0].state is "CHECKPOINT_STATE_UNSPECIFIED"; it must be LIVE, RETIRING or QUARANTINED',
    ],
    ['"manifestKey":"version_7/1.2/', '"manifestKey":"version_7/1/', 'state.checkpoints[0].manifestKey is'],
    [
      `"manifestSha256":"${'A'.repeat(43)}="`,
      '"manifestSha256":"AAAA"',
      'state.checkpoints[0].manifestSha256 is 3 bytes; it must be 32 bytes',
    ],
    ['"verified":true', '"verified":1', 'state.checkpoints[0].verified is 1; it must be true or false'],
    [
      '"incarnations":{"1":4}',
      '"incarnations":{"01":4}',
      'state.incarnations.01 is "01"; it must be below a key that is a whole number',
    ],
    [
      '"incarnations":{"1":4}',
      '"incarnations":{"4294967296":4}',
      'it must be below a key that is a whole number',
    ],
    ['"incarnations":{"1":4}', '"incarnations":{"1":-4}', 'state.incarnations.1 is -4'],
    ['"top":"7"', '"top":"-2"', 'state.top is -2; it must be at least -1'],
    ['"state":{', '"state":7,"state2":{', 'state is 7; it must be an object'],
  ])('catalog entry: %s as %s', (from, to, message) => {
    const before = tailOf(encodeRecord('catalog-entry', entry).bytes);
    const after = before.replace(from, to);
    expect(after).not.toBe(before);
    const error = refusal(sealed(after), 'catalog-entry');
    expect(error.code).toBe('Corrupt');
    expect(error.message).toContain(message);
  });
});

describe('sizes that add up to more than 2^53 - 1', () => {
  const HUGE = 2 ** 52;
  const SMALL = 11_111;
  const file = (name: string, sizeBytes: number) => ({
    ...(receipt.files[0] as Receipt['files'][number]),
    ...{ name, sizeBytes, partSizeBytes: sizeBytes, partCrc32c: new Uint8Array(4) },
  });
  const files = (sizeBytes: number) => [file('a', sizeBytes), file('b', sizeBytes)];
  const ref = (sizeBytes: number) => ({
    ...{ incarnation: 0, sha256: new Uint8Array(32), fileCount: 1, sizeBytes, firstName: 'a', lastName: 'a' },
    directoryCount: 0,
  });
  const { metrics, metadata, suspicions, bases, id } = receipt;
  const head = { id, worldSize: 2 };
  const share = (writer: number, sizeBytes: number) => ({
    ...{ writer, incarnation: 0, receiptKey: 'k', receiptSha256: new Uint8Array(32) },
    files: [file(`${writer}`, sizeBytes)],
    directories: [],
  });
  const list = { sha256: new Uint8Array(32), fileCount: 1, firstName: 'a', lastName: 'a' };
  const lists = (sizeBytes: number) => [1, 2].map(() => ({ ...list, sizeBytes }));

  test.each([
    ['receipt', 'files', (bytes) => ({ ...receipt, files: files(bytes) })],
    ['receipt', 'files', (bytes) => ({ ...receipt, files: [], fileLists: lists(bytes) })],
    ['file-list', 'files', (bytes) => ({ id, writer: 0, incarnation: 0, files: files(bytes) })],
    [
      'manifest',
      'writers',
      (bytes) => ({
        ...{ ...head, bases, metrics, metadata, suspicions, receipts: [] },
        writers: [share(0, bytes), share(1, bytes)],
      }),
    ],
    [
      'manifest',
      'receipts',
      (bytes) => ({
        ...{ ...head, writers: [], bases: [], metrics: {}, metadata: {}, suspicions: [] },
        receipts: [ref(bytes), ref(bytes)],
      }),
    ],
  ] as [RecordKind, string, (sizeBytes: number) => never][])('%s, by its %s', (kind, field, of) => {
    const { bytes } = encodeRecord(kind, of(SMALL));
    const accepted = `${field} is an array; it must be files of at most 2^53 - 1 bytes in total`;
    expect(errorOf(() => encodeRecord(kind, of(HUGE))).message).toContain(accepted);
    const tail = Buffer.from(bytes).toString('utf8').slice(HEAD_LENGTH);
    const error = refusal(sealed(tail.replaceAll(`"${SMALL}"`, `"${HUGE}"`)), kind);
    expect([error.code, error.message]).toEqual(['Corrupt', `${where.key} is damaged: ${accepted}`]);
    const half = tail.replaceAll(`"${SMALL}"`, `"${HUGE / 2}"`);
    expect(() => decodeRecord(kind, sealed(half), where)).not.toThrow();
  });
});

describe('hostile input', () => {
  test('a key __proto__ is an ordinary key, in maps and messages, and pollutes nothing', () => {
    const bytes = sealed(
      ',"format":{"kind":"receipt","major":1},"__proto__":{"polluted":1},"id":{"__proto__":{"polluted":1},"lineage":1},"metadata":{"__proto__":"polluted"},"worldSize":1}\n',
    );
    const decoded = decodeRecord('receipt', bytes, where);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
    expect((decoded as unknown as Record<string, unknown>)['polluted']).toBeUndefined();
    expect((decoded.id as unknown as Record<string, unknown>)['polluted']).toBeUndefined();
    expect(Object.entries(decoded.metadata)).toEqual([['__proto__', 'polluted']]);
    expect(Buffer.compare(encodeRecord('receipt', { ...decoded }).bytes, bytes)).toBe(0);
  });

  test.each([
    ['"worldSize":4', '"worldSize":65537', 'worldSize is 65537; it must be at least 1 and at most 65536'],
    [',"worldSize":4', '', 'worldSize is 0; it must be at least 1 and at most 65536'],
    ['"writer":3', '"writer":65536', 'writer is 65536; it must be at least 0 and at most 65535'],
  ])('receipt: %s as %s', (from, to, message) => {
    const after = tailOf(encodeRecord('receipt', receipt).bytes).replace(from, to);
    expect(refusal(sealed(after), 'receipt').message).toContain(`some/record.json is damaged: ${message}`);
  });

  test.each([
    ['"committedAtMs":"1"', '"committedAtMs":"-1"', 'state.checkpoints[0].committedAtMs is -1'],
    [
      '"committedAtMs":"1"',
      '"committedAtMs":"253402300800000"',
      'it must be at least 0 and at most 253402300799999',
    ],
    ['"id":{', '"graceMs":"3155760000001","id":{', 'it must be at least 0 and at most 3155760000000'],
    [
      '"seq":"1"',
      '"seq":"1000000000000001"',
      'seq is 1000000000000001; it must be at least 1 and at most 1000',
    ],
    ['"worldSize":2', '"worldSize":4294967295', 'state.worldSize is 4294967295; it must be at least 1'],
  ])('catalog entry: %s as %s', (from, to, message) => {
    const before = tailOf(encodeRecord('catalog-entry', entry).bytes);
    const after = before.replace(from, to);
    expect(after).not.toBe(before);
    expect(refusal(sealed(after), 'catalog-entry').message).toContain(message);
  });

  test.each([
    ['State.txnRing', { txnRing: Array.from({ length: 257 }, () => 't') }, 256],
    ['State.pastAttempts', { pastAttempts: Array.from({ length: 4097 }, () => 'a') }, 4096],
    [
      'State.incarnations',
      { incarnations: Object.fromEntries(Array.from({ length: 65_537 }, (_, at) => [at, 1])) },
      65_536,
    ],
  ])('%s has a count', (_field, change, count) => {
    const wrong = { ...entry, state: { ...state, ...change } };
    expect(errorOf(() => encodeRecord('catalog-entry', wrong)).message).toContain(
      `it must be one of at most ${count} values`,
    );
  });

  test('a name in a message is cut, however long it is in the record', () => {
    const error = refusal(sealedClaim(`,"${'z'.repeat(60_000)}":1e999`));
    expect(error.message.length).toBeLessThan(600);
  });

  test('a map has only what the record says', () => {
    const decoded = decodeRecord('receipt', encodeRecord('receipt', receipt).bytes, where);
    expect(decoded.metadata['constructor']).toBeUndefined();
    expect(decoded.metrics['toString']).toBeUndefined();
  });

  test('nesting is limited to 32 levels, counted as they are read', () => {
    const nested = (levels: number) => sealedClaim(`,"zz":${'['.repeat(levels)}${']'.repeat(levels)}`);
    const decoded = decodeRecord('claim', nested(31), where);
    expect(encodeRecord('claim', decoded).bytes.length).toBe(nested(31).length);
    const message = 'it must be nested at most 32 levels deep';
    expect(refusal(nested(32)).message).toContain(message);
    expect(refusal(sealedClaim(`,"zz":${'['.repeat(60_000)}`)).message).toContain(message);
    expect(refusal(sealedClaim(`,"zz":${'{"a":'.repeat(10_000)}`)).message).toContain(message);
  });

  test('brackets and quotes inside strings do not count as levels', () => {
    const value = { ...claim, host: `${'[{"\\'.repeat(100)}\\"` };
    expect(decodeRecord('claim', encodeRecord('claim', value).bytes, where).host).toBe(value.host);
  });

  test('a record of many files is read', () => {
    const files = Array.from({ length: 40_000 }, () => receipt.files[0]!);
    const { bytes } = encodeRecord('receipt', { ...receipt, files });
    expect(decodeRecord('receipt', bytes, where).files.length).toBe(40_000);
  });
});
