/** A run with many versions, without saving each of them. */

import { crc32c, type ObjectStore } from '@holdfast/core';
import {
  type CatalogCheckpoint,
  catalogKey,
  encodeRecord,
  type FileRecord,
  manifestKey,
  payloadKey,
  receiptKey,
  type State,
} from '@holdfast/core/internal/format/index';
import { committedCheckpoint } from '@holdfast/core/internal/plan/apply-commit';
import { closePages } from '@holdfast/core/internal/plan/pages';
import { EMPTY_STATE } from '@holdfast/core/internal/plan/state';

const MIB = 1024 * 1024;
/** As the setting `entryCheckpointsMax` has it by default. */
export const ENTRY_CHECKPOINTS = 1024;
export const METRICS = { loss: 1.2345678901, lr: 0.0001234, 'eval/accuracy': 0.87654321 };
const RUN_ID = '00000000000000000000000000000000';
/** The attempt that has saved all versions. */
export const JOB = 'job';
const PUTS_AT_A_TIME = 64;

type Id = CatalogCheckpoint['id'] & object;

interface FillOptions {
  readonly isCatalogOnly?: boolean;
  readonly commitMs?: (version: number) => number;
  readonly filesOf?: (id: Id) => Promise<readonly FileRecord[]>;
}

/**
 * A run of `count` live checkpoints of one file each, as if each had been saved. `isCatalogOnly`:
 * without files, manifests and former entries, for readers of the catalog. `commitMs`: the time of
 * a version's commit. `filesOf`: puts the files of a version.
 */
export async function fillRun(
  store: ObjectStore,
  count: number,
  { isCatalogOnly = false, commitMs = (version) => version, filesOf }: FillOptions = {},
): Promise<void> {
  const put: Put = async (key, bytes) => {
    await store.create(key, bytes, { crc32c: crc32c(bytes) });
  };
  const ofVersions: Put = isCatalogOnly ? async () => undefined : put;
  const timed = (saved: CatalogCheckpoint) => ({
    ...saved,
    committedAtMs: commitMs(Number(saved.id?.version)),
  });
  let state: State = { ...EMPTY_STATE, epoch: 1, attempt: JOB, worldSize: 1, txnRing: ['t'] };
  for (let first = 1; first <= count; first += ENTRY_CHECKPOINTS) {
    const last = Math.min(count, first + ENTRY_CHECKPOINTS - 1);
    const files = filesOf ?? ((id: Id) => putFile(ofVersions, id));
    const added = await putVersions({ put: ofVersions, files }, first, last);
    const checkpoints = [...state.checkpoints, ...added.map(timed)];
    const latest = checkpoints.at(-1)?.id;
    const grown = { ...state, checkpoints, latest, top: latest?.version ?? -1n };
    const closed = closePages(grown, [], {
      runId: RUN_ID,
      seq: last,
      entryCheckpointsMax: ENTRY_CHECKPOINTS,
    });
    for (const page of closed.pages) await put(page.key, page.bytes);
    state = closed.state;
  }
  // As in a run of saves, entries precede the newest one. They are never read.
  for (let seq = isCatalogOnly ? count : Math.max(1, count - 3); seq < count; seq++)
    await put(catalogKey(seq), new Uint8Array(1));
  const transaction = {
    id: 't',
    kind: 'commit',
    lineage: 1,
    epoch: 1,
    checkpoint: state.latest,
    checkpoints: [],
  };
  const rest = { reason: '', host: '', pid: 0, atMs: 0, attempt: JOB };
  const entry = { format: undefined, runId: RUN_ID, seq: count, entryId: 'e', parentId: '', state };
  const { bytes } = encodeRecord('catalog-entry', { ...entry, transaction: { ...transaction, ...rest } });
  await put(catalogKey(count), bytes);
  const run = { format: undefined, runId: RUN_ID, policy: undefined, createdAtMs: 0 };
  await put('run.json', encodeRecord('run', run).bytes);
}

type Put = (key: string, bytes: Uint8Array) => Promise<void>;

interface Putting {
  readonly put: Put;
  readonly files: (id: Id) => Promise<readonly FileRecord[]>;
}

/** Versions `first` to `last`, some at a time. */
async function putVersions(putting: Putting, first: number, last: number): Promise<CatalogCheckpoint[]> {
  const checkpoints: CatalogCheckpoint[] = [];
  while (checkpoints.length < last - first + 1) {
    const from = first + checkpoints.length;
    const count = Math.min(PUTS_AT_A_TIME, last - from + 1);
    const puts = Array.from({ length: count }, (_, index) => putVersion(putting, BigInt(from + index)));
    checkpoints.push(...(await Promise.all(puts)));
  }
  return checkpoints;
}

/** The one file of a version. */
async function putFile(put: Put, id: Id): Promise<FileRecord[]> {
  const payload = new Uint8Array([Number(id.version % 256n), 1, 2]);
  const key = payloadKey({ id, writer: 0, incarnation: 0, nonce: '0f', name: 'a' });
  await put(key, payload);
  const sum = crc32c(payload);
  const sizes = { sizeBytes: payload.length, partSizeBytes: MIB };
  const sums = { crc32c: sum, partCrc32c: bigEndian([sum]), blake3: new Uint8Array(0) };
  return [{ name: 'a', key, ...sizes, ...sums, mode: 0, mtimeMs: 0 }];
}

/** As a file's record has the checksums of its parts. */
export function bigEndian(sums: readonly number[]): Uint8Array {
  const bytes = Buffer.alloc(4 * sums.length);
  for (const [index, sum] of sums.entries()) bytes.writeUInt32BE(sum, 4 * index);
  return bytes;
}

async function putVersion({ put, files: filesOf }: Putting, version: bigint): Promise<CatalogCheckpoint> {
  const id = { lineage: 1, epoch: 1, version };
  const files = await filesOf(id);
  const sizeBytes = files.reduce((sum, file) => sum + file.sizeBytes, 0);
  const share = {
    writer: 0,
    incarnation: 0,
    receiptKey: receiptKey(id, 0, 0),
    receiptSha256: new Uint8Array(32),
    taken: undefined,
    directories: [],
  };
  const { bytes, sha256 } = encodeRecord('manifest', {
    ...{ format: undefined, id, worldSize: 1, writers: [{ ...share, files: [...files] }], receipts: [] },
    ...{ bases: [], metrics: METRICS, metadata: {}, suspicions: [] },
  });
  await put(manifestKey(id, sha256), bytes);
  return committedCheckpoint({
    ...{
      kind: 'commit',
      checkpoint: id,
      worldSize: 1,
      writers: [],
      bases: [],
      suspicions: [],
      metrics: METRICS,
    },
    ...{
      manifestKey: manifestKey(id, sha256),
      manifestSha256: sha256,
      sizeBytes,
      fileCount: files.length,
      storedBytes: sizeBytes,
    },
    atMs: Number(version),
  });
}
