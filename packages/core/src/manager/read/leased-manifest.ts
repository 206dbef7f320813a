/** A checkpoint that is read under a lease. */

import type { CheckpointId, CheckpointReference } from '../../contract/checkpoint-manager.ts';
import type { Manifest } from '../../format/index.ts';
import { chooseCheckpoint } from '../../plan/select.ts';
import type { Head } from '../catalog/index.ts';
import { readManifest } from '../records/index.ts';
import { type RunContext, unlessRemovedMeanwhile } from '../run/index.ts';
import { leaseCheckpoint, wantedReference } from './restore.ts';

export interface LeasedManifest {
  readonly id: CheckpointId;
  readonly manifest: Manifest;
  /** Also fires when the lease is lost. */
  readonly signal: AbortSignal;
}

/** Calls `use` while the lease is held, and releases it. */
export async function withLeasedManifest<T>(
  run: RunContext,
  { version, signal }: { version: CheckpointReference | 'latest'; signal: AbortSignal },
  use: (leased: LeasedManifest) => Promise<T>,
): Promise<T> {
  const wanted = wantedReference(version);
  const choose = ({ state }: Head) => chooseCheckpoint(state, wanted);
  const { checkpoint, lease } = await leaseCheckpoint(run, choose, signal);
  const until = AbortSignal.any([signal, lease.lost]);
  try {
    const manifest = await readManifest(run, checkpoint, until);
    return await use({ id: checkpoint.id, manifest, signal: until });
  } catch (error) {
    throw await unlessRemovedMeanwhile(run, checkpoint, error, signal);
  } finally {
    await lease.release({ signal });
  }
}
