import { createHash } from 'node:crypto';
import { type FieldSchema, MESSAGES } from '@holdfast/wire';
import fc, { type Arbitrary } from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type CheckpointError,
  isCheckpointError,
  SPAN_MS_MAX,
  TIME_MS_MAX,
  WORLD_SIZE_MAX,
} from '../contract/index.ts';
import { decodeRecord, encodeRecord } from './record.ts';
import {
  type CatalogEntry,
  type CatalogPage,
  type Claim,
  type FileListRef,
  type Manifest,
  MESSAGE_OF_KIND,
  type Receipt,
  type ReceiptRef,
  type RecordKind,
  type RecordTypes,
  type Taken,
} from './record-types.ts';

const KINDS = Object.keys(MESSAGE_OF_KIND) as RecordKind[];
const where = { key: 'some/record.json', store: 'memory://test' };
const HEAD_LENGTH = '{"checksum":"sha256:'.length + 64 + 1;

/** Values of every type; for fields with rules, values that satisfy them. */
const text = fc.string({ unit: 'grapheme', maxLength: 12 });
const count = fc.maxSafeNat();
const bytesOf = (length: number) => fc.uint8Array({ minLength: length, maxLength: length });
const uint32 = fc.nat(2 ** 32 - 1);
const int64 = fc.bigInt({ min: 0n, max: 2n ** 63n - 1n });

const SCALARS: Record<string, Arbitrary<unknown>> = {
  string: text,
  bool: fc.boolean(),
  bytes: fc.uint8Array({ maxLength: 40 }),
  uint32,
  double: fc.double({ noNaN: true, noDefaultInfinity: true }),
  'int64-number': fc.maxSafeInteger(),
  'int64-bigint': fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
};

const PAYLOAD_KEY = 'version_7/1.2/3.0-0123abcd/model/weights.bin';
const MANIFEST_KEY = 'version_7/1.2/manifest-0123456789abcdef.json';

const time = fc.nat(TIME_MS_MAX);
const span = fc.nat(SPAN_MS_MAX);
const worldSize = fc.integer({ min: 1, max: WORLD_SIZE_MAX });
const writer = fc.nat(WORLD_SIZE_MAX - 1);

const SPECIAL: Record<string, Arbitrary<unknown>> = {
  'Checkpoint.committedAtMs': time,
  'Claim.writer': writer,
  'FileList.writer': writer,
  'Manifest.worldSize': worldSize,
  'Receipt.worldSize': worldSize,
  'Receipt.writer': writer,
  'Run.createdAtMs': time,
  'State.skippedManifests': fc.constant(MANIFEST_KEY),
  'State.worldSize': worldSize,
  'Transaction.atMs': time,
  'Upload.writer': writer,
  'WriterShare.writer': writer,
  'CatalogEntry.seq': fc.integer({ min: 1, max: 10 ** 15 }),
  'Checkpoint.fileCount': count,
  'Checkpoint.manifestKey': fc.constant(MANIFEST_KEY),
  'Checkpoint.manifestSha256': bytesOf(32),
  'Checkpoint.retiringSeq': count,
  'Checkpoint.graceMs': span,
  'Checkpoint.retiringAtMs': time,
  'Checkpoint.sizeBytes': count,
  'Checkpoint.storedBytes': count,
  'Checkpoint.state': fc.constantFrom('LIVE', 'RETIRING', 'QUARANTINED'),
  'CheckpointId.version': int64,
  'File.blake3': fc.oneof(bytesOf(0), bytesOf(32)),
  'File.key': fc.constant(PAYLOAD_KEY),
  'File.mode': fc.nat(0o777),
  'File.mtimeMs': fc.oneof(fc.constant(0), time),
  'File.name': fc.constantFrom('a', 'b/c', 'ü/__proto__', 'constructor'),
  'Directory.mtimeMs': time,
  'Directory.name': fc.constantFrom('d', 'e/f'),
  'FileListRef.fileCount': fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
  'FileListRef.firstName': fc.constantFrom('a', 'b/c'),
  'FileListRef.lastName': fc.constantFrom('d', 'ü/e'),
  'FileListRef.sha256': bytesOf(32),
  'FileListRef.sizeBytes': fc.nat(2 ** 49), // a few of them add up to a safe number
  'Grant.blockMs': fc.integer({ min: 1, max: 604_800_000 }),
  'Grant.seq': fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
  'KeepBest.count': fc.integer({ min: 1, max: 2 ** 32 - 1 }),
  'CatalogPage.seq': fc.integer({ min: 1, max: 10 ** 15 }),
  'PageRef.count': fc.integer({ min: 1, max: 2 ** 32 - 1 }),
  'PageRef.seq': fc.integer({ min: 1, max: 10 ** 15 }),
  'PageRef.sha256': bytesOf(32),
  'Claim.life': fc.constantFrom('', 'ps-0', 'é'.repeat(256), '\u{10ffff} \u2028'),
  'PageRef.topOnPath': fc.bigInt({ min: -1n, max: 2n ** 63n - 1n }),
  'Policy.graceMs': span,
  'Policy.keepEvery': int64,
  'Policy.keepEveryMs': span,
  'Policy.keepForMs': span,
  'ReadLease.ttlMs': fc.integer({ min: 1, max: 2_592_000_000 }),
  'ReceiptRef.directoryCount': fc.nat(65_536),
  'ReceiptRef.fileCount': count,
  'ReceiptRef.sha256': bytesOf(32),
  'ReceiptRef.sizeBytes': fc.nat(2 ** 49),
  'Removed.manifestSha256': bytesOf(32),
  'RemovedFloor.version': int64,
  'Taken.consistency': fc.constantFrom('PAUSED', 'POLLUTED'),
  'Taken.stateVersion': int64,
  'Taken.takenAtMs': time,
  'State.top': fc.bigInt({ min: -1n, max: 2n ** 63n - 1n }),
  'Upload.partSizeBytes': fc.integer({ min: 1, max: 2 ** 40 }),
  'Upload.sizeBytes': fc.integer({ min: -1, max: Number.MAX_SAFE_INTEGER }),
  'WriterShare.receiptSha256': bytesOf(32),
};

/** Parts that match the size. */
const fileParts = fc
  .record({ parts: fc.nat(5), partSizeBytes: fc.integer({ min: 1, max: 2 ** 40 }), short: fc.nat() })
  .chain(({ parts, partSizeBytes, short }) =>
    bytesOf(parts * 4).map((partCrc32c) => ({
      partCrc32c,
      partSizeBytes: parts === 0 ? 0 : partSizeBytes,
      sizeBytes: parts === 0 ? 0 : parts * partSizeBytes - (short % partSizeBytes),
    })),
  );

function fieldValue(message: string, field: FieldSchema): Arbitrary<unknown> {
  if (field.kind === 'message') return messageValue(field.type);
  return SPECIAL[`${message}.${field.name}`] ?? (SCALARS[field.type] as Arbitrary<unknown>);
}

function mapOf(field: FieldSchema, value: Arbitrary<unknown>): Arbitrary<unknown> {
  const keys =
    field.mapKey === 'uint32'
      ? uint32.map(String)
      : fc.oneof(text, fc.constantFrom('__proto__', 'constructor'));
  return fc.dictionary(keys as Arbitrary<string>, value, { maxKeys: 4 });
}

/** Fields that a newer minor may have added: any JSON, under names that no message has. */
const unknownFields = fc.dictionary(
  fc.oneof(
    fc.constantFrom('__proto__', 'toString', 'zz', '0', 'Ａ'),
    text.map((name) => `new${name}`),
  ),
  fc.jsonValue({ maxDepth: 3, stringUnit: 'grapheme' }),
  { maxKeys: 3 },
);

function messageValue(message: string): Arbitrary<object> {
  const known: Record<string, Arbitrary<unknown>> = {};
  const optional: string[] = [];
  for (const field of MESSAGES[message] as readonly FieldSchema[]) {
    if (field.name === 'format') continue;
    const one = fieldValue(message, field);
    if (field.mapKey !== undefined) known[field.name] = mapOf(field, one);
    else known[field.name] = field.repeated ? fc.array(one, { maxLength: 3 }) : one;
    const mayBeAbsent = field.kind === 'message' && !field.repeated && !field.required;
    if (mayBeAbsent) optional.push(field.name);
  }
  const requiredKeys = Object.keys(known).filter((name) => !optional.includes(name));
  return fc
    .tuple(
      fc.record(known, { requiredKeys }),
      unknownFields,
      message === 'File' ? fileParts : fc.constant({}),
      fc.boolean(),
    )
    .map(([value, unknown, parts, isInline]) => ({
      ...unknown,
      ...value,
      ...parts,
      ...allowed(message, value, isInline),
    }));
}

/** If a rule of the whole message forbids a combination of fields, replaces these fields. */
function allowed(message: string, value: object, isInline: boolean): object {
  const { files = [], writers = [], receipts = [], fileLists = [] } = value as Partial<Receipt & Manifest>;
  if (message === 'FileList') {
    const first = {
      name: 'a',
      key: PAYLOAD_KEY,
      sizeBytes: 0,
      crc32c: 0,
      partSizeBytes: 0,
      mode: 0,
      mtimeMs: 0,
    };
    const [last = first] = files;
    const names = ['a/1', 'a/2'];
    return { files: [first, last].map((file, index) => ({ ...NO_SUMS, ...file, name: names[index] })) };
  }
  if (message === 'WriterShare') return { directories: distinct(value) };
  if (message === 'Receipt') {
    const directories = distinct(value);
    return isInline ? { directories, fileLists: [] } : { directories, files: [], fileLists };
  }
  if (message !== 'Manifest' || receipts.length === 0) return {};
  const nothing = { writers: [], bases: [], metrics: {}, metadata: {}, suspicions: [] };
  return isInline ? { receipts: [], writers } : nothing;
}

/** Sorted, without duplicate names. */
function distinct({ directories = [] }: Partial<Receipt>): Receipt['directories'] {
  const byName = new Map(directories.map((each) => [each.name, each]));
  return [...byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

const NO_SUMS = { partCrc32c: new Uint8Array(0), blake3: new Uint8Array(0) };

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

describe('layout', () => {
  test('a record is its checksum, its format and its fields in order, without defaults and white space', () => {
    const { bytes } = encodeRecord('claim', { ...claim, incarnation: 0, host: '' });
    const tail = ',"format":{"kind":"claim","major":1},"nonce":"ab12","pid":4711,"writer":3}\n';
    expect(new TextDecoder().decode(bytes)).toBe(new TextDecoder().decode(sealed(tail)));
  });

  test('the checksum is the SHA-256 of every byte after its closing quote', () => {
    const { bytes } = encodeRecord('claim', claim);
    const digest = createHash('sha256').update(bytes.subarray(HEAD_LENGTH)).digest('hex');
    expect(new TextDecoder().decode(bytes.subarray(0, HEAD_LENGTH))).toBe(`{"checksum":"sha256:${digest}"`);
  });

  test('sha256 is of the whole file', () => {
    const { bytes, sha256 } = encodeRecord('claim', claim);
    expect(Buffer.from(sha256).toString('hex')).toBe(createHash('sha256').update(bytes).digest('hex'));
  });

  test('int64 are decimal strings, bytes base64, enums names, uint32 and doubles numbers', () => {
    const tail = tailOf(encodeRecord('receipt', receipt).bytes);
    expect(tail).toContain('"version":"7"');
    expect(tail).toContain('"sizeBytes":"10"');
    expect(tail).toContain('"partCrc32c":"AQIDBAUGBwg="');
    expect(tail).toContain('"crc32c":4294967295');
    expect(tail).toContain('"metrics":{"loss":0.25}');
  });

  test('a map keeps values that are defaults', () => {
    const tail = tailOf(
      encodeRecord('receipt', { ...receipt, metrics: { a: 0, b: -0 }, metadata: { c: '' } }).bytes,
    );
    expect(tail).toContain('"metrics":{"a":0,"b":-0}');
    expect(tail).toContain('"metadata":{"c":""}');
  });

  test('a record with no field but its format is whole', () => {
    const empty: Claim = { writer: 0, incarnation: 0, nonce: '', host: '', pid: 0, life: '' };
    const { bytes } = encodeRecord('claim', empty);
    expect(tailOf(bytes)).toBe(',"format":{"kind":"claim","major":1}}\n');
    expect(decodeRecord('claim', bytes, where)).toEqual({
      ...empty,
      format: { kind: 'claim', major: 1, minor: 0 },
    });
  });
});

/** Fields that came with major 2. */
function leastMajor(kind: RecordKind, value: RecordTypes[RecordKind]): number {
  const { fileLists = [], receipts = [], state } = value as Partial<Receipt & Manifest & CatalogEntry>;
  if (kind === 'file-list' || kind === 'catalog-page') return 2;
  const newInState = (state?.pages.length ?? 0) + (state?.skippedManifests.length ?? 0);
  return fileLists.length + receipts.length + newInState > 0 ? 2 : 1;
}

/**
 * Fields that came with minor 1: `taken`, annotated metadata, and lives. With minor 2: empty
 * directories, and times of files; the times came with minor 1 of file lists.
 */
function leastMinor(kind: RecordKind, value: RecordTypes[RecordKind]): number {
  const {
    files = [],
    taken,
    directories = [],
    writers = [],
    receipts = [],
    state,
    checkpoints = [],
    life = '',
  } = value as Partial<Receipt & Manifest & CatalogEntry & CatalogPage & Claim>;
  const listed = [...directories, ...writers.flatMap((share) => share.directories)];
  const isTimed = [...files, ...writers.flatMap((share) => share.files)].some((file) => file.mtimeMs > 0);
  if (kind === 'file-list') return isTimed ? 1 : 0;
  if (isTimed || listed.length > 0 || receipts.some(({ directoryCount }) => directoryCount > 0)) return 2;
  const isTaken = [taken, ...writers.map((share) => share.taken)].some((each) => each !== undefined);
  const annotated = [...checkpoints, ...(state?.checkpoints ?? [])];
  const isAnnotated = annotated.some((each) => Object.keys(each.annotatedMetadata).length > 0);
  return life !== '' || isTaken || isAnnotated ? 1 : 0;
}

describe.each(KINDS)('%s', (kind) => {
  const values = messageValue(MESSAGE_OF_KIND[kind]) as Arbitrary<RecordTypes[RecordKind]>;

  test('what is decoded is what was encoded, unknown fields included, and is encoded to the same bytes again', () => {
    fc.assert(
      fc.property(values, fc.nat(9), (value, minor) => {
        const major = leastMajor(kind, value);
        const { bytes } = encodeRecord(kind, { ...value, format: { kind, major, minor } });
        const decoded = decodeRecord(kind, bytes, where);
        const format = { kind, major, minor: Math.max(leastMinor(kind, value), minor) };
        expect(decoded).toEqual({ ...value, format });
        expect(Buffer.compare(encodeRecord(kind, decoded).bytes, bytes)).toBe(0);
      }),
      { numRuns: 60 },
    );
  });

  test('the order in which properties were set makes no difference', () => {
    fc.assert(
      fc.property(values, (value) => {
        const reversed = Object.fromEntries(Object.entries(value).reverse()) as unknown as typeof value;
        expect(encodeRecord(kind, reversed)).toEqual(encodeRecord(kind, value));
      }),
      { numRuns: 20 },
    );
  });

  test('every single bit that is flipped is found, and so is every byte that is missing or added', () => {
    const [value] = fc.sample(values, { numRuns: 1, seed: 7 });
    const { bytes } = encodeRecord(kind, value as RecordTypes[RecordKind]);
    for (let bit = 0; bit < Math.min(bytes.length, 3000) * 8; bit++) {
      const flipped = Uint8Array.from(bytes);
      flipped[bit >> 3]! ^= 1 << (bit & 7);
      expect(refusal(flipped, kind).code).toBe('Corrupt');
    }
    for (let length = 0; length < bytes.length; length++) {
      expect(refusal(bytes.subarray(0, length), kind).code).toBe('Corrupt');
    }
    expect(refusal(Buffer.concat([bytes, Uint8Array.of(0x0a)]), kind).code).toBe('Corrupt');
  });

  test('bytes that are no record are Corrupt, never another error', () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.uint8Array({ maxLength: 300 }), fc.uint8Array({ maxLength: 300 }).map(sealed)),
        (bytes) => {
          expect(refusal(bytes, kind).code).toBe('Corrupt');
        },
      ),
    );
  });

  test('any JSON under a right checksum is Corrupt or the one spelling of its value', () => {
    const names = (MESSAGES[MESSAGE_OF_KIND[kind]] as readonly FieldSchema[]).map((field) => field.name);
    const members = fc.dictionary(fc.oneof(fc.constantFrom(...names), text), fc.jsonValue(), { maxKeys: 4 });
    fc.assert(
      fc.property(members, (fields) => {
        const { format: _, ...rest } = fields;
        const body = JSON.stringify(rest).slice(1);
        const bytes = sealed(`,"format":{"kind":"${kind}","major":1}${body === '}' ? '' : ','}${body}\n`);
        try {
          const decoded = decodeRecord(kind, bytes, where);
          expect(Buffer.compare(encodeRecord(kind, decoded).bytes, bytes)).toBe(0);
        } catch (error) {
          expect(isCheckpointError(error, 'Corrupt') ? 'Corrupt' : error).toBe('Corrupt');
        }
      }),
    );
  });
});

describe('a newer format', () => {
  test('a newer major is UnsupportedFormat and says what to do', () => {
    const error = refusal(sealed(',"format":{"kind":"claim","major":3,"minor":3},"whatever":{}}\n'));
    expect(error.code).toBe('UnsupportedFormat');
    expect(error.message).toContain(
      'some/record.json was written by a newer Holdfast (format 3.3; this one reads up to 2.x): upgrade',
    );
    expect(error.context).toMatchObject(where);
  });

  test('a record is of the lowest major that says what is in it; another is refused', () => {
    const [list] = fc.sample(messageValue('FileListRef'), 1) as FileListRef[];
    const [ref] = fc.sample(messageValue('ReceiptRef'), 1) as ReceiptRef[];
    const listed = { ...receipt, files: [], fileLists: [list!] };
    const nothing = { writers: [], bases: [], metrics: {}, metadata: {}, suspicions: [] };
    const referring = { id: receipt.id, worldSize: 1, ...nothing, receipts: [ref!] };
    expect(tailOf(encodeRecord('receipt', receipt).bytes)).toContain('"major":1');
    expect(tailOf(encodeRecord('receipt', listed).bytes)).toContain('"major":2');
    expect(tailOf(encodeRecord('manifest', referring).bytes)).toContain('"major":2');
    const wrong = { ...receipt, format: { kind: 'receipt', major: 2, minor: 0 } };
    expect(() => encodeRecord('receipt', wrong)).toThrow('format.major is 2; it must be 1');
  });

  test('a record that says of which moment its bytes are is of minor 1, and of minor 0 without', () => {
    const taken: Taken = { consistency: 'POLLUTED', stateVersion: 5n, takenAtMs: 1 };
    const share = {
      writer: 3,
      incarnation: 0,
      receiptKey: 'r',
      receiptSha256: new Uint8Array(32),
      files: [],
      directories: [],
    };
    const { id, bases, metrics, metadata, suspicions } = receipt;
    const manifest = {
      id,
      worldSize: 1,
      writers: [share],
      bases,
      metrics,
      metadata,
      suspicions,
      receipts: [],
    };
    const start = (bytes: Uint8Array) => tailOf(bytes).split('}')[0];
    expect(start(encodeRecord('receipt', receipt).bytes)).toBe(',"format":{"kind":"receipt","major":1');
    expect(start(encodeRecord('receipt', { ...receipt, taken }).bytes)).toBe(
      ',"format":{"kind":"receipt","major":1,"minor":1',
    );
    expect(start(encodeRecord('manifest', manifest).bytes)).toBe(',"format":{"kind":"manifest","major":1');
    expect(start(encodeRecord('manifest', { ...manifest, writers: [{ ...share, taken }] }).bytes)).toBe(
      ',"format":{"kind":"manifest","major":1,"minor":1',
    );
  });

  test('a newer minor is read, and written again with the same number', () => {
    const bytes = sealed(',"format":{"added":[],"kind":"claim","major":1,"minor":5},"pid":1}\n');
    const decoded = decodeRecord('claim', bytes, where);
    expect(decoded.format).toEqual({ kind: 'claim', major: 1, minor: 5, added: [] });
    expect(Buffer.compare(encodeRecord('claim', decoded).bytes, bytes)).toBe(0);
  });

  test('unknown fields survive a change of known ones by spread, at every level', () => {
    const tail = tailOf(encodeRecord('receipt', receipt).bytes)
      .replace('"name":"model/weights.bin"', '"name":"model/weights.bin","new":{"b":[1,{"c":null}]}')
      .replace('"lineage":1,"version":"7"', '"lineage":1,"new":true,"version":"7"')
      .replace('"metadata":', '"later":"new","metadata":')
      .replace('"incarnation":0,', '');
    const decoded = decodeRecord('receipt', sealed(tail), where);
    const files = decoded.files.map((file) => ({ ...file, mode: 0, mtimeMs: 0 }));
    const changed = tailOf(
      encodeRecord('receipt', { ...decoded, id: { ...decoded.id, epoch: 3 }, files }).bytes,
    );
    expect(changed).toBe(tail.replace('"mode":420,', '').replace('"id":{"epoch":2', '"id":{"epoch":3'));
  });
});
