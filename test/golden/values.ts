/**
 * The content of the golden files: one small run of two writers, with a value in every field. Add
 * to it, but change nothing that exists.
 */

import type {
  CatalogCheckpoint,
  CatalogEntry,
  CatalogPage,
  Claim,
  FileList,
  FileRecord,
  Grant,
  Manifest,
  Policy,
  ReadLease,
  Receipt,
  RecordKind,
  RecordTypes,
  Run,
  State,
  UploadRecord,
  WriterShare,
} from '@holdfast/core/internal/format/index';

export type GoldenValue = { [Kind in RecordKind]: { readonly kind: Kind; readonly value: RecordTypes[Kind] } }[RecordKind];

const hex = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, 'hex'));
const RUN_ID = '5f0c7a3e9b1d4f6288aa01c2d3e4f506';
const ID = { lineage: 2, epoch: 3, version: 9007199254740993n };
const BASE = { lineage: 2, epoch: 3, version: 9007199254740992n };
const AT_MS = 1767225600000;

const weights: FileRecord = {
  name: 'model/weights-0-of-2.bin',
  key: 'version_9007199254740993/2.3/0.1-00112233445566778899aabbccddeeff/model/weights-0-of-2.bin',
  sizeBytes: 20000000,
  crc32c: 0xe3069283,
  partSizeBytes: 8388608,
  partCrc32c: hex('8a9136aa62a8ab4346dd794e'),
  blake3: hex('af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262'),
  mode: 0o644,
  mtimeMs: 0,
};

const empty: FileRecord = {
  name: 'grüße/空 🙂 "quoted".txt',
  key: 'version_9007199254740992/2.3/0.0-0f/grüße/空 🙂 "quoted".txt',
  sizeBytes: 0,
  crc32c: 0,
  partSizeBytes: 0,
  partCrc32c: new Uint8Array(0),
  blake3: new Uint8Array(0),
  mode: 0,
  mtimeMs: 0,
};

const keepLast = (count: number): Policy => ({ keepLast: count, keepEvery: 0n, keepEveryMs: 0, keepForMs: 0, keepBest: [], graceMs: 0 });

const run: Run = { runId: RUN_ID, policy: keepLast(5), createdAtMs: AT_MS };

const claim: Claim = { writer: 1, incarnation: 2, nonce: 'c0ffee', host: 'node-7.example', pid: 4711, life: '' };

const claimOfLife: Claim = {
  ...claim,
  format: { kind: 'claim', major: 1, minor: 1 },
  life: 'ps-0 of job 17, start 3: Ω',
};

const receipt: Receipt = {
  id: ID,
  writer: 0,
  incarnation: 1,
  worldSize: 2,
  files: [empty, weights],
  bases: [BASE],
  metrics: { loss: 0.1, accuracy: 1e-7, perplexity: 1.5e300, zero: 0, minus: -0, tokens: 4503599627370496.5 },
  metadata: { note: 'line one\nline "two"\\', '': 'empty key', __proto__x: '\u0000\u007f\u2028' },
  suspicions: [],
  fileLists: [],
  directories: [],
};

const manifest: Manifest = {
  id: ID,
  worldSize: 2,
  writers: [
    {
      writer: 0,
      incarnation: 1,
      receiptKey: 'version_9007199254740993/2.3/receipts/0.1.json',
      receiptSha256: hex('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'),
      files: [empty, weights],
      directories: [],
    },
    {
      writer: 1,
      incarnation: 0,
      receiptKey: 'version_9007199254740993/2.3/receipts/1.0.json',
      receiptSha256: hex('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'),
      files: [],
      directories: [],
    },
  ],
  bases: [BASE],
  metrics: { loss: 0.1 },
  metadata: { note: 'ü' },
  suspicions: [],
  receipts: [],
};

const live: CatalogCheckpoint = {
  id: ID,
  manifestKey: 'version_9007199254740993/2.3/manifest-ba7816bf8f01cfea.json',
  manifestSha256: hex('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'),
  sizeBytes: 20000000,
  fileCount: 2,
  metrics: { loss: 0.1 },
  state: 'LIVE',
  retiringSeq: 0,
  pins: ['paper', 'release 1.0'],
  verified: true,
  suspect: false,
  reason: '',
  committedAtMs: AT_MS,
  bases: [BASE],
  rolledBack: false,
  retiringAtMs: 0,
  graceMs: 0,
  storedBytes: 0,
  annotatedMetadata: {},
};

const entry: CatalogEntry = {
  runId: RUN_ID,
  seq: 42,
  entryId: '000102030405060708090a0b0c0d0e0f',
  parentId: '101112131415161718191a1b1c1d1e1f',
  transaction: {
    id: '202122232425262728292a2b2c2d2e2f',
    kind: 'commit',
    lineage: 2,
    epoch: 3,
    checkpoint: ID,
    checkpoints: [],
    reason: 'asked for',
    host: 'node-7.example',
    pid: 4711,
    atMs: AT_MS,
    attempt: 'slurm-815-0',
  },
  state: {
    lineage: 2,
    epoch: 3,
    attempt: 'slurm-815-0',
    attemptDrawn: true,
    pastAttempts: ['a1b2c3d4e5f60718', '0011223344556677'],
    worldSize: 2,
    incarnations: { 0: 1, 10: 4, 2: 0 },
    latest: ID,
    top: 9007199254740993n,
    checkpoints: [
      {
        ...live,
        id: BASE,
        manifestKey: 'version_9007199254740992/2.3/manifest-e3b0c44298fc1c14.json',
        manifestSha256: hex('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'),
        metrics: {},
        state: 'RETIRING',
        retiringSeq: 41,
        pins: [],
        verified: false,
        suspect: true,
        reason: 'keep-last 1',
        bases: [],
        rolledBack: true,
      },
      live,
    ],
    abandoned: [{ lineage: 2, epoch: 3, version: 9007199254740999n }],
    removedRing: [
      {
        id: { lineage: 1, epoch: 1, version: 0n },
        manifestSha256: hex('00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff'),
      },
    ],
    removedFloor: { lineage: 1, version: 9223372036854775807n },
    txnRing: ['303132333435363738393a3b3c3d3e3f', '202122232425262728292a2b2c2d2e2f'],
    skippedManifests: [],
    policy: keepLast(3),
    pages: [],
  },
};

const first: CatalogEntry = {
  runId: RUN_ID,
  seq: 1,
  entryId: '000102030405060708090a0b0c0d0e0f',
  parentId: '',
  transaction: {
    id: '202122232425262728292a2b2c2d2e2f',
    kind: 'takeover',
    lineage: 1,
    epoch: 1,
    checkpoints: [],
    reason: '',
    host: 'node-7.example',
    pid: 4711,
    atMs: AT_MS,
    attempt: 'slurm-815-0',
  },
  state: {
    lineage: 1,
    epoch: 1,
    attempt: 'slurm-815-0',
    attemptDrawn: false,
    pastAttempts: [],
    worldSize: 2,
    incarnations: {},
    top: -1n,
    checkpoints: [],
    abandoned: [],
    removedRing: [],
    txnRing: ['202122232425262728292a2b2c2d2e2f'],
    pages: [],
    skippedManifests: [],
  },
};

const retired: CatalogEntry = {
  ...entry,
  seq: 43,
  transaction: {
    id: '404142434445464748494a4b4c4d4e4f',
    kind: 'retire',
    lineage: 2,
    epoch: 3,
    checkpoints: [{ lineage: 1, epoch: 2, version: 7n }, BASE],
    reason: 'no rule keeps it: the newest 1',
    host: 'node-7.example',
    pid: 4711,
    atMs: AT_MS,
    attempt: 'slurm-815-0',
  },
  state: {
    ...(entry.state as State),
    checkpoints: [{ ...live, state: 'RETIRING', retiringSeq: 43, retiringAtMs: AT_MS, graceMs: 7200000, storedBytes: 19999999 }],
    policy: {
      keepLast: 1,
      keepEvery: 9007199254740993n,
      keepEveryMs: 3600000,
      keepForMs: 604800000,
      keepBest: [
        { metric: 'loss', highest: false, count: 3 },
        { metric: 'größe', highest: true, count: 1 },
      ],
      graceMs: 3600000,
    },
    resumedFrom: BASE,
  },
};

/**
 * After a rebuild that could not read a manifest. An older reader would delete the objects that are
 * kept for that manifest.
 */
const skipping: CatalogEntry = {
  ...retired,
  format: { kind: 'catalog-entry', major: 2, minor: 0 },
  seq: 1795370845057,
  parentId: '',
  transaction: {
    id: '505152535455565758595a5b5c5d5e5f',
    kind: 'rebuild',
    lineage: 2,
    epoch: 3,
    checkpoints: [],
    reason: 'the catalog was gone; rebuilt from 1 manifests',
    host: 'node-7.example',
    pid: 4711,
    atMs: AT_MS,
    attempt: 'drawn-606162636465666768696a6b6c6d6e6f',
  },
  state: {
    ...(retired.state as State),
    skippedManifests: ['version_9007199254740994/2.3/manifest-0123456789abcdef.json', 'version_3/1.1/manifest-fedcba9876543210.json'],
  },
};

const suspicious: Receipt = { ...receipt, suspicions: ['"model/weights-0-of-2.bin" is what it was in version 9007199254740992'] };
const suspiciousManifest: Manifest = { ...manifest, suspicions: suspicious.suspicions };

const takenReceipt: Receipt = {
  ...receipt,
  format: { kind: 'receipt', major: 1, minor: 1 },
  taken: { consistency: 'POLLUTED', stateVersion: 9223372036854775807n, takenAtMs: AT_MS },
};
const pausedReceipt: Receipt = { ...takenReceipt, taken: { consistency: 'PAUSED', stateVersion: 0n, takenAtMs: 0 } };
const [firstShare, secondShare] = manifest.writers as readonly [WriterShare, WriterShare];
/** One writer reported the state of its bytes, the other did not. */
const takenManifest: Manifest = {
  ...manifest,
  format: { kind: 'manifest', major: 1, minor: 1 },
  writers: [firstShare, { ...secondShare, taken: { consistency: 'POLLUTED', stateVersion: 9007199254740990n, takenAtMs: AT_MS } }],
};

/**
 * Directories in which a writer saved nothing, beside files. The other writer has the same
 * directory and no file.
 */
const directoriesReceipt: Receipt = {
  ...receipt,
  format: { kind: 'receipt', major: 1, minor: 2 },
  directories: [
    { name: 'logs/tensorboard', mtimeMs: 0 },
    { name: 'ü "x"', mtimeMs: 0 },
  ],
};
const directoriesManifest: Manifest = {
  ...manifest,
  format: { kind: 'manifest', major: 1, minor: 2 },
  writers: [
    { ...firstShare, directories: directoriesReceipt.directories },
    { ...secondShare, taken: { consistency: 'PAUSED', stateVersion: ID.version, takenAtMs: AT_MS }, directories: [{ name: 'logs/tensorboard', mtimeMs: 0 }] },
  ],
};

/** Modification times of files and of an empty directory. One file has none. */
const timesReceipt: Receipt = {
  ...receipt,
  format: { kind: 'receipt', major: 1, minor: 2 },
  files: [empty, { ...weights, mtimeMs: AT_MS + 123 }],
  directories: [{ name: 'logs', mtimeMs: 253402300799999 }],
};
const timesManifest: Manifest = {
  ...manifest,
  format: { kind: 'manifest', major: 1, minor: 2 },
  writers: [{ ...firstShare, files: [{ ...empty, mtimeMs: 1 }, weights] }, secondShare],
};

/** Some files of a writer that has too many for its receipt. */
const fileList: FileList = { format: { kind: 'file-list', major: 2, minor: 0 }, id: ID, writer: 0, incarnation: 1, files: [empty, weights] };
const timesFileList: FileList = {
  ...fileList,
  format: { kind: 'file-list', major: 2, minor: 1 },
  files: timesReceipt.files,
};
const listedReceipt: Receipt = {
  ...takenReceipt,
  format: { kind: 'receipt', major: 2, minor: 1 },
  files: [],
  fileLists: [
    {
      sha256: hex('3a7bd3e2360a3d29eea436fcfb7e44c735d117c42d1c1835420b6b9942dd4f1b'),
      fileCount: 2,
      sizeBytes: 20000000,
      firstName: empty.name,
      lastName: weights.name,
    },
    { sha256: hex('2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae'), fileCount: 1, sizeBytes: 0, firstName: 'z', lastName: 'z' },
  ],
};
/** Three writers, the last of which has no file. */
const manifestByReference: Manifest = {
  format: { kind: 'manifest', major: 2, minor: 0 },
  id: ID,
  worldSize: 3,
  writers: [],
  bases: [],
  metrics: {},
  metadata: {},
  suspicions: [],
  receipts: [
    {
      incarnation: 1,
      sha256: hex('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'),
      fileCount: 1000000,
      sizeBytes: 9007199254740991,
      firstName: empty.name,
      lastName: 'model/wei',
      directoryCount: 0,
    },
    {
      incarnation: 0,
      sha256: hex('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'),
      fileCount: 1,
      sizeBytes: 0,
      firstName: 'model/x',
      lastName: 'model/x',
      directoryCount: 0,
    },
    {
      incarnation: 4294967295,
      sha256: hex('2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824'),
      fileCount: 0,
      sizeBytes: 0,
      firstName: '',
      lastName: '',
      directoryCount: 0,
    },
  ],
};

/** The second of three writers has empty directories. */
const directoriesByReference: Manifest = {
  ...manifestByReference,
  format: { kind: 'manifest', major: 2, minor: 2 },
  receipts: manifestByReference.receipts.map((ref, index) => (index === 1 ? { ...ref, directoryCount: 65536 } : ref)),
};

const lease: ReadLease = { id: ID, reader: 'eval-3', ttlMs: 900000, host: 'node-9.example', pid: 12 };

const upload: UploadRecord = {
  id: ID,
  writer: 1,
  incarnation: 2,
  key: 'version_9007199254740993/2.3/1.2-0f/model/weights-1-of-2.bin',
  token: 'opaque+token/==',
  partSizeBytes: 8388608,
  sizeBytes: -1,
  name: 'model/weights-1-of-2.bin',
};

const grant: Grant = {
  seq: 9007199254740991,
  id: '505152535455565758595a5b5c5d5e5f',
  trainerId: 'trainer 嵌入',
  blockMs: 604800000,
  host: 'node-7.example',
  pid: 4711,
};

/**
 * As a later minor format may write it: with fields at every level that this version does not know.
 */
const newerMinor = {
  ...receipt,
  format: { kind: 'receipt', major: 1, minor: 7, writtenBy: 'holdfast 9' },
  files: [{ ...weights, codec: { name: 'zstd', level: 3, dictionary: null } } as FileRecord],
  id: { ...ID, branch: 'main' },
  zones: ['a', { b: [true, 1.5, 'ü'] }],
  Quota: '9223372036854775807',
} as Receipt;

const PAGED_ID = { lineage: 1, epoch: 2, version: 7n };

const page: CatalogPage = {
  format: { kind: 'catalog-page', major: 2, minor: 0 },
  runId: RUN_ID,
  seq: 41,
  checkpoints: [
    {
      ...live,
      id: PAGED_ID,
      manifestKey: 'version_7/1.2/manifest-ba7816bf8f01cfea.json',
      pins: [],
      bases: [],
      rolledBack: true,
    },
    {
      ...live,
      id: { lineage: 2, epoch: 2, version: 8n },
      manifestKey: 'version_8/2.2/manifest-e3b0c44298fc1c14.json',
      pins: [],
      bases: [PAGED_ID],
      verified: false,
    },
  ],
};

const paged: CatalogEntry = {
  ...entry,
  format: { kind: 'catalog-entry', major: 2, minor: 0 },
  state: {
    ...(entry.state as State),
    pages: [
      {
        seq: 41,
        sha256: hex('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'),
        first: PAGED_ID,
        last: { lineage: 2, epoch: 2, version: 8n },
        count: 2,
        liveCount: 2,
        liveVerifiedCount: 1,
        livePathCount: 1,
        topOnPath: 8n,
      },
    ],
  },
};

/**
 * Metrics and metadata that were added after the commits, for a checkpoint in the entry and for one
 * in a page.
 */
const annotatedEntry: CatalogEntry = {
  ...entry,
  format: { kind: 'catalog-entry', major: 1, minor: 1 },
  seq: 43,
  transaction: {
    id: '606162636465666768696a6b6c6d6e6f',
    kind: 'annotate',
    lineage: 2,
    epoch: 3,
    checkpoint: ID,
    checkpoints: [],
    reason: 'auc=0.91, note="größer 🙂"',
    host: 'node-7.example',
    pid: 4711,
    atMs: AT_MS,
    attempt: 'slurm-815-0',
  },
  state: {
    ...(entry.state as State),
    checkpoints: [{ ...live, metrics: { auc: 0.91, loss: 0.1 }, annotatedMetadata: { note: 'größer 🙂', evaluatedBy: '' } }],
  },
};
const annotatedPage: CatalogPage = {
  ...page,
  format: { kind: 'catalog-page', major: 2, minor: 1 },
  checkpoints: page.checkpoints.map((checkpoint, index) => (index === 0 ? { ...checkpoint, annotatedMetadata: { note: 'x' } } : checkpoint)),
};

export const GOLDEN_VALUES: Readonly<Record<string, GoldenValue>> = {
  'run.json': { kind: 'run', value: run },
  'catalog-entry.json': { kind: 'catalog-entry', value: entry },
  'catalog-entry-first.json': { kind: 'catalog-entry', value: first },
  'catalog-entry-retired.json': { kind: 'catalog-entry', value: retired },
  'catalog-entry-paged.json': { kind: 'catalog-entry', value: paged },
  'catalog-page.json': { kind: 'catalog-page', value: page },
  'catalog-entry-skipping.json': { kind: 'catalog-entry', value: skipping },
  'catalog-entry-annotated.json': { kind: 'catalog-entry', value: annotatedEntry },
  'catalog-page-annotated.json': { kind: 'catalog-page', value: annotatedPage },
  'receipt-suspicious.json': { kind: 'receipt', value: suspicious },
  'manifest-suspicious.json': { kind: 'manifest', value: suspiciousManifest },
  'receipt-polluted.json': { kind: 'receipt', value: takenReceipt },
  'receipt-paused.json': { kind: 'receipt', value: pausedReceipt },
  'manifest-polluted.json': { kind: 'manifest', value: takenManifest },
  'claim.json': { kind: 'claim', value: claim },
  'claim-of-life.json': { kind: 'claim', value: claimOfLife },
  'receipt.json': { kind: 'receipt', value: receipt },
  'receipt-newer-minor.json': { kind: 'receipt', value: newerMinor },
  'manifest.json': { kind: 'manifest', value: manifest },
  'file-list.json': { kind: 'file-list', value: fileList },
  'receipt-file-lists.json': { kind: 'receipt', value: listedReceipt },
  'manifest-by-reference.json': { kind: 'manifest', value: manifestByReference },
  'receipt-directories.json': { kind: 'receipt', value: directoriesReceipt },
  'manifest-directories.json': { kind: 'manifest', value: directoriesManifest },
  'manifest-by-reference-directories.json': { kind: 'manifest', value: directoriesByReference },
  'receipt-times.json': { kind: 'receipt', value: timesReceipt },
  'manifest-times.json': { kind: 'manifest', value: timesManifest },
  'file-list-times.json': { kind: 'file-list', value: timesFileList },
  'read-lease.json': { kind: 'read-lease', value: lease },
  'upload.json': { kind: 'upload', value: upload },
  'grant.json': { kind: 'grant', value: grant },
};
