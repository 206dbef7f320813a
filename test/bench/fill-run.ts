/** A run with many versions, without saving each of them. */

import { crc32c, type ObjectStore } from '@holdfast/core';
import {
  type CatalogCheckpoint,
  catalogKey,
  encodeRecord,
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

/**
 * A run of `count` live checkpoints of one file each, as if each had been saved. `isCatalogOnly`:
 * without files, manifests and former entries, for readers of the catalog. `commitMs`: the time of
 * a version's commit.
 */
export async function fillRun(
  store: ObjectStore,
  count: number,
  { isCatalogOnly = false, commitMs = (version: number) => version } = {},
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
    const checkpoints = [...state.checkpoints, ...(await putVersions(ofVersions, first, last)).map(timed)];
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

/** Versions `first` to `last`, some at a time. */
async function putVersions(put: Put, first: number, last: number): Promise<CatalogCheckpoint[]> {
  const checkpoints: CatalogCheckpoint[] = [];
  while (checkpoints.length < last - first + 1) {
    const from = first + checkpoints.length;
    const count = Math.min(PUTS_AT_A_TIME, last - from + 1);
    const puts = Array.from({ length: count }, (_, index) => putVersion(put, BigInt(from + index)));
    checkpoints.push(...(await Promise.all(puts)));
  }
  return checkpoints;
}

async function putVersion(put: Put, version: bigint): Promise<CatalogCheckpoint> {
  const id = { lineage: 1, epoch: 1, version };
  const payload = new Uint8Array([Number(version % 256n), 1, 2]);
  const key = payloadKey({ id, writer: 0, incarnation: 0, nonce: '0f', name: 'a' });
  await put(key, payload);
  const sum = crc32c(payload);
  const partCrc32c = new Uint8Array(4);
  new DataView(partCrc32c.buffer).setUint32(0, sum);
  const sizes = { sizeBytes: payload.length, partSizeBytes: MIB };
  const file = {
    name: 'a',
    key,
    ...sizes,
    crc32c: sum,
    partCrc32c,
    blake3: new Uint8Array(0),
    mode: 0,
    mtimeMs: 0,
  };
  const share = {
    writer: 0,
    incarnation: 0,
    receiptKey: receiptKey(id, 0, 0),
    receiptSha256: new Uint8Array(32),
    taken: undefined,
    directories: [],
  };
  const { bytes, sha256 } = encodeRecord('manifest', {
    ...{ format: undefined, id, worldSize: 1, writers: [{ ...share, files: [file] }], receipts: [] },
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
      sizeBytes: 3,
      fileCount: 1,
      storedBytes: 3,
    },
    atMs: Number(version),
  });
}
