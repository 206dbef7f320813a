/** For the tests of this folder: decisions on a run that no command makes yet. */

import {
  completeSettings,
  type ObjectStore,
  silentLogger,
  silentMeter,
  systemClock,
  systemRandom,
} from '@holdfast/core';
import { Catalog } from '@holdfast/core/internal/manager/catalog/catalog';
import type { Head } from '@holdfast/core/internal/manager/catalog/head';
import { UploadRecords } from '@holdfast/core/internal/manager/records/upload-records';
import { RECORD_LIMITS } from '@holdfast/core/internal/plan/file-lists';
import type { Decided } from '@holdfast/core/internal/plan/transaction';
import { createTransfers } from '@holdfast/core/internal/transfer/index';
import { type MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { SETTINGS } from '../crash/invariants.ts';

/** Appends the decision that `of` derives from the newest entry. */
export async function decide(bucket: MemoryBucket, of: (head: Head) => Decided): Promise<void> {
  const store: ObjectStore = new MemoryStore(bucket);
  const settings = completeSettings(SETTINGS);
  const parts = {
    store,
    settings,
    clock: systemClock,
    random: systemRandom,
    logger: silentLogger,
    meter: silentMeter,
  };
  const transfers = createTransfers(parts);
  const { records } = transfers;
  const uploads = new UploadRecords({ ...parts, records });
  const process = { host: 'test', pid: 1 };
  const catalog = new Catalog({
    ...parts,
    transfers,
    records,
    uploads,
    process,
    files: undefined,
    dedupe: 'off',
    recordLimits: RECORD_LIMITS,
  });
  const head = await catalog.read(undefined);
  const txn = { ...of(head), id: systemRandom.hex(32) };
  const result = await catalog.append(txn, { runId: head.runId, head, signal: undefined });
  if (result.kind !== 'committed') throw new Error(`not decided: ${JSON.stringify(result)}`);
}

/**
 * Does the work of retention and its collector: removes the version from the catalog, and its
 * objects.
 */
export async function removeVersion(bucket: MemoryBucket, version: bigint): Promise<void> {
  const some = (head: Head) => ({ ...about(head, version), checkpoints: [about(head, version).checkpoint] });
  await decide(bucket, (head) => ({ ...some(head), kind: 'retire', atMs: 0, graceMs: 0 }));
  await decide(bucket, (head) => {
    const retiringSeqs = [checkpointOf(head, version).retiringSeq];
    return { ...some(head), kind: 'remove', retiringSeqs };
  });
  for (const key of bucket.keys()) if (key.startsWith(`version_${version}/`)) bucket.remove(key);
}

export function quarantineVersion(bucket: MemoryBucket, version: bigint, reason: string): Promise<void> {
  return decide(bucket, (head) => ({ ...about(head, version), kind: 'quarantine', reason }));
}

/** Begins another attempt that does nothing. */
export function takeOver(bucket: MemoryBucket): Promise<void> {
  return decide(bucket, () => ({
    ...{ kind: 'takeover', attempt: 'another', attemptDrawn: false, worldSize: 1, reason: '' },
  }));
}

export function rollBackTo(bucket: MemoryBucket, version: bigint): Promise<void> {
  return decide(bucket, (head) => ({ ...about(head, version), kind: 'rollback' }));
}

function about(head: Head, version: bigint) {
  const { lineage, epoch } = head.state;
  return { lineage, epoch, checkpoint: checkpointOf(head, version).id, reason: 'by a test' };
}

function checkpointOf(head: Head, version: bigint) {
  const found = head.state.checkpoints.find(({ id }) => id.version === version);
  if (!found) throw new Error(`there is no version ${version}`);
  return found;
}
