import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isCheckpointError, isRunFile } from '../contract/index.ts';
import * as keys from './keys.ts';
import { LOGICAL_NAME_BYTES_MAX } from './logical-name.ts';
import { VERSION_MAX } from './version.ts';

const id = { lineage: 1, epoch: 2, version: 30n };
const by = { writer: 3, incarnation: 4 };
const nonce = '0123abcd';
const digest = Uint8Array.from({ length: 32 }, (_, index) => index);

const uint32 = fc.nat(2 ** 32 - 1);
const ids = fc.record({ lineage: uint32, epoch: uint32, version: fc.bigInt({ min: 0n, max: VERSION_MAX }) });
const incarnations = fc.record({ writer: uint32, incarnation: uint32 });
const nonces = fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: 1, maxLength: 32 });
const names = fc.constantFrom(
  'a',
  'b/c',
  'receipts/0.0.json',
  '模型/ü',
  'manifest-0000000000000000.json',
  'a b-c',
);
const words = fc.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9._-]{0,40}$/);

function expectInvalid(run: () => unknown): void {
  let found: unknown = 'accepted';
  try {
    run();
  } catch (error) {
    found = error;
  }
  expect(isCheckpointError(found, 'InvalidArgument') ? 'InvalidArgument' : found).toBe('InvalidArgument');
}

test('every key has the form that docs/format.md gives', () => {
  expect(keys.runKey).toBe('run.json');
  expect(keys.catalogKey(42)).toBe('catalog/00000000000000000042.json');
  expect(keys.claimPrefix(1, 2)).toBe('writers/1.2/');
  expect(keys.claimKey({ lineage: 1, epoch: 2, ...by })).toBe('writers/1.2/3.4.json');
  expect(keys.checkpointPrefix(id)).toBe('version_30/1.2/');
  expect(keys.receiptsPrefix(id)).toBe('version_30/1.2/receipts/');
  expect(keys.receiptKey(id, 3, 4)).toBe('version_30/1.2/receipts/3.4.json');
  expect(keys.fileListKey({ id, writer: 3, incarnation: 4 }, digest)).toBe(
    'version_30/1.2/files/3.4-0001020304050607.json',
  );
  expect(keys.payloadKey({ id, ...by, nonce, name: 'a/b.bin' })).toBe('version_30/1.2/3.4-0123abcd/a/b.bin');
  expect(keys.manifestKey(id, digest)).toBe('version_30/1.2/manifest-0001020304050607.json');
  expect(keys.uploadKey('up-1')).toBe('uploads/up-1.json');
  expect(keys.uploadIdPrefix({ lineage: 2, epoch: 3, version: 7n }, 11)).toBe('7.2.3.11-');
  expect(keys.leasePrefix(id)).toBe('leases/30.1.2/');
  expect(keys.leaseKey(id, 'host-a', nonce)).toBe('leases/30.1.2/host-a-0123abcd.json');
  expect(keys.grantKey(42)).toBe('elections/00000000000000000042.json');
});

test('every prefix ends in a slash, so version_1 never matches version_10', () => {
  const prefixes = [
    keys.catalogPrefix,
    keys.uploadsPrefix,
    keys.leasesPrefix,
    keys.writersPrefix,
    keys.grantsPrefix,
  ];
  prefixes.push(
    keys.claimPrefix(1, 1),
    keys.checkpointPrefix(id),
    keys.receiptsPrefix(id),
    keys.leasePrefix(id),
  );
  for (const prefix of prefixes) expect(prefix).toMatch(/[^/]\/$/);
});

test('a catalog entry and a manifest tell a run from other files, wherever it lies', () => {
  const manifest = keys.manifestKey(id, new Uint8Array(32));
  for (const key of [keys.catalogKey(1), manifest]) {
    expect([key, `/data/run/${key}`].map(isRunFile)).toEqual([true, true]);
    expect([`x${key}`, `${key}/a`, `/data/x${key}`].map(isRunFile)).toEqual([false, false, false]);
  }
  const payload = keys.payloadKey({ id, writer: 0, incarnation: 1, nonce: 'ab', name: 'model.json' });
  expect([payload, 'run.json', 'catalog/1.json', 'version_1/model'].some(isRunFile)).toBe(false);
});

test('ascending seqs are ascending keys', () => {
  const seq = fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER });
  fc.assert(
    fc.property(seq, seq, (a, b) => {
      expect(keys.catalogKey(a) < keys.catalogKey(b)).toBe(a < b);
      expect(keys.grantKey(a) < keys.grantKey(b)).toBe(a < b);
    }),
  );
});

describe('a parser undoes its builder', () => {
  test('catalog', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }), (seq) => {
        expect(keys.parseCatalogKey(keys.catalogKey(seq))).toBe(seq);
      }),
    );
  });

  test('claim', () => {
    fc.assert(
      fc.property(
        fc.record({ lineage: uint32, epoch: uint32, writer: uint32, incarnation: uint32 }),
        (parts) => {
          expect(keys.parseClaimKey(keys.claimKey(parts))).toEqual(parts);
        },
      ),
    );
  });

  test('receipt', () => {
    fc.assert(
      fc.property(ids, incarnations, (at, who) => {
        const key = keys.receiptKey(at, who.writer, who.incarnation);
        expect(keys.parseReceiptKey(key)).toEqual({ id: at, ...who });
        expect(keys.parseCheckpointPrefix(key)).toEqual(at);
        expect([keys.parsePayloadKey(key), keys.parseManifestKey(key), keys.parseClaimKey(key)]).toEqual([
          null,
          null,
          null,
        ]);
      }),
    );
  });

  test('file list', () => {
    const digests = fc.uint8Array({ minLength: 32, maxLength: 32 });
    fc.assert(
      fc.property(ids, incarnations, digests, (at, who, digest) => {
        const key = keys.fileListKey({ id: at, ...who }, digest);
        expect(keys.parseFileListKey(key)).toEqual({ id: at, ...who });
        expect(keys.parseCheckpointPrefix(key)).toEqual(at);
        const others = [keys.parsePayloadKey, keys.parseReceiptKey, keys.parseManifestKey];
        expect(others.map((parse) => parse(key))).toEqual([null, null, null]);
      }),
    );
  });

  test('payload, whatever its name', () => {
    fc.assert(
      fc.property(ids, incarnations, nonces, names, (at, who, chance, name) => {
        const key = keys.payloadKey({ id: at, ...who, nonce: chance, name });
        expect(keys.parsePayloadKey(key)).toEqual({ id: at, ...who, nonce: chance, name });
        expect(keys.parseCheckpointPrefix(key)).toEqual(at);
        expect([keys.parseReceiptKey(key), keys.parseManifestKey(key)]).toEqual([null, null]);
      }),
    );
  });

  test('manifest', () => {
    fc.assert(
      fc.property(ids, fc.uint8Array({ minLength: 32, maxLength: 32 }), (at, sha256) => {
        const key = keys.manifestKey(at, sha256);
        expect(keys.parseManifestKey(key)).toEqual({
          id: at,
          sha256Start: Buffer.from(sha256).toString('hex').slice(0, 16),
        });
        expect([keys.parseReceiptKey(key), keys.parsePayloadKey(key)]).toEqual([null, null]);
      }),
    );
  });

  test('upload', () => {
    fc.assert(
      fc.property(words, (word) => {
        expect(keys.parseUploadKey(keys.uploadKey(word))).toBe(word);
      }),
    );
  });

  test('upload id: for whom it was begun', () => {
    fc.assert(
      fc.property(ids, uint32, nonces, (whose, writer, drawn) => {
        const uploadId = keys.uploadIdPrefix(whose, writer) + drawn;
        expect(keys.parseUploadId(uploadId)).toEqual({ id: whose, writer });
      }),
    );
  });

  test('grant', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }), (seq) => {
        expect(keys.parseGrantKey(keys.grantKey(seq))).toBe(seq);
        expect(keys.parseCatalogKey(keys.grantKey(seq))).toBeNull();
      }),
    );
  });

  test('lease, also of a reader with dashes', () => {
    fc.assert(
      fc.property(ids, words, nonces, (at, reader, chance) => {
        expect(keys.parseLeaseKey(keys.leaseKey(at, reader, chance))).toEqual({
          id: at,
          reader,
          nonce: chance,
        });
      }),
    );
  });
});

describe('a parser refuses what its builder does not make', () => {
  test.each([
    'catalog/1.json',
    'catalog/00000000000000000000.json',
    'catalog/99999999999999999999.json',
    'catalog/00000000000000000042.json.tmp',
    'catalog/x/00000000000000000042.json',
    'Catalog/00000000000000000042.json',
    'catalog/00000000000000000042.json\n',
  ])('catalog: %j', (key) => {
    expect(keys.parseCatalogKey(key)).toBeNull();
  });

  test.each([
    'writers/1.2/3.json',
    'writers/01.2/3.4.json',
    'writers/1.2/3.4294967296.json',
    'writers/1.2/3.-4.json',
    'x/writers/1.2/3.4.json',
  ])('claim: %j', (key) => {
    expect(keys.parseClaimKey(key)).toBeNull();
  });

  test.each([
    'version_030/1.2/receipts/3.4.json',
    'version_9223372036854775808/1.2/receipts/3.4.json',
    'version_30/1.2/receipts/3.04.json',
    'version_30/1.2/receipts/3.4',
    'version_30/4294967296.2/receipts/3.4.json',
    'version_30/1.2/receipts/4294967296.4.json',
    'version_30/1/receipts/3.4.json',
    'version_-1/1.2/receipts/3.4.json',
  ])('receipt: %j', (key) => {
    expect(keys.parseReceiptKey(key)).toBeNull();
  });

  test.each([
    'version_30/1.2/3.4/a',
    'version_30/1.2/3.4-/a',
    'version_30/1.2/3.4-ABCD/a',
    `version_30/1.2/3.4-${'a'.repeat(33)}/a`,
    'version_30/1.2/3.4-abcd/',
    'version_30/1.2/3.4-abcd/../a',
    'version_30/1.2/3.4-abcd//a',
    'version_30/1.2/3.4-abcd/a\nb',
    'version_30/1.2/receipts/3.4-abcd/a',
    '../version_30/1.2/3.4-abcd/a',
  ])('payload: %j', (key) => {
    expect(keys.parsePayloadKey(key)).toBeNull();
  });

  test.each([
    'version_30/1.2/manifest-00.json',
    'version_30/1.2/manifest-000102030405060A.json',
    'version_30/1.2/manifest.json',
  ])('manifest: %j', (key) => {
    expect(keys.parseManifestKey(key)).toBeNull();
  });

  test.each(['uploads/.json', 'uploads/a/b.json', 'uploads/..json', 'uploads/a', 'uploads/-a.json'])(
    'upload: %j',
    (key) => {
      expect(keys.parseUploadKey(key)).toBeNull();
    },
  );

  test.each(['', '7.2.3.11-', '7.2.3-a', '07.2.3.11-a', '7.2.3.4294967296-a', 'v7.2.3.11-a', '7.2.3.x-a'])(
    'upload id: %j',
    (uploadId) => {
      expect(keys.parseUploadId(uploadId)).toBeNull();
    },
  );

  test.each([
    'leases/30.1.2/abcd.json',
    'leases/30.1/a-abcd.json',
    'leases/30.1.2/a-xyz.json',
    'leases/30.1.2/a/b-abcd.json',
  ])('lease: %j', (key) => {
    expect(keys.parseLeaseKey(key)).toBeNull();
  });

  test.each([
    'elections/1.json',
    `elections/${'0'.repeat(20)}.json`,
    'elections/00009007199254740992.json',
    'elections/00000000000000000001',
    'a/elections/00000000000000000001.json',
  ])('grant: %j', (key) => {
    expect(keys.parseGrantKey(key)).toBeNull();
  });

  test.each(['version_30/', 'version_30/1.2', 'version_x/1.2/', 'x/version_30/1.2/'])(
    'checkpoint: %j',
    (key) => {
      expect(keys.parseCheckpointPrefix(key)).toBeNull();
    },
  );
});

describe('a builder refuses what would give a wrong key', () => {
  test.each([
    ['seq 0', () => keys.catalogKey(0)],
    ['grant 0', () => keys.grantKey(0)],
    ['a fraction', () => keys.catalogKey(1.5)],
    ['an unsafe seq', () => keys.catalogKey(2 ** 53)],
    ['a negative epoch', () => keys.claimPrefix(1, -1)],
    ['no lineage', () => keys.claimPrefix(Number.NaN, 1)],
    ['a version below zero', () => keys.checkpointPrefix({ ...id, version: -1n })],
    ['a version above int64', () => keys.leasePrefix({ ...id, version: VERSION_MAX + 1n })],
    ['a writer above uint32', () => keys.receiptKey(id, 2 ** 32, 0)],
    ['a name that leads out', () => keys.payloadKey({ id, ...by, nonce, name: '../x' })],
    ['a nonce that is no hex', () => keys.payloadKey({ id, ...by, nonce: 'xyz', name: 'a' })],
    ['a nonce that is too long', () => keys.payloadKey({ id, ...by, nonce: 'a'.repeat(33), name: 'a' })],
    ['a digest that is too short', () => keys.manifestKey(id, new Uint8Array(31))],
    ['an upload id with a slash', () => keys.uploadKey('a/b')],
    ['an upload id that is a dot', () => keys.uploadKey('.')],
    ['a reader with a space', () => keys.leaseKey(id, 'a b', nonce)],
    ['an empty reader', () => keys.leaseKey(id, '', nonce)],
  ])('%s', (_what, build) => {
    expectInvalid(build);
  });
});

test('the longest payload key has 1,024 bytes, as many as a store takes', () => {
  const name = Array.from({ length: 10 }, () => 'x'.repeat(200))
    .join('/')
    .slice(0, LOGICAL_NAME_BYTES_MAX);
  const largest = { lineage: 2 ** 32 - 1, epoch: 2 ** 32 - 1, version: VERSION_MAX };
  const key = keys.payloadKey({
    id: largest,
    writer: 2 ** 32 - 1,
    incarnation: 2 ** 32 - 1,
    nonce: 'f'.repeat(32),
    name,
  });
  expect(key.length).toBe(1024);
});
