/**
 * `commit()`: commits a version that all writers have delivered. A caller may require that the
 * commit has the files of one life of a writer.
 */

import type { CommitWaitOptions, VersionInput, WriterPosition } from '../../contract/checkpoint-manager.ts';
import { CheckpointError } from '../../contract/errors.ts';
import { type CatalogCheckpoint, type CheckpointId, toVersion } from '../../format/index.ts';
import { receiptPlaces } from '../../plan/file-lists.ts';
import { findByVersion, isPastAttempt } from '../../plan/state.ts';
import type { Head } from '../catalog/index.ts';
import {
  type ClaimPlace,
  findReceipt,
  type OwnReceipt,
  ownClaim,
  readClaim,
  readManifest,
} from '../records/index.ts';
import { type RunContext, readRun } from '../run/index.ts';
import { highestDelivered } from './begun.ts';
import { finalise } from './finalise.ts';
import { type Attempt, fencedAttempt, registerOwn } from './join.ts';

/** The life whose files the commit must have. */
export interface LifeInAttempt {
  readonly life: string;
  readonly attempt: Attempt;
  readonly writer: WriterPosition;
}

/**
 * With `as`, success means that the commit has the files of this life, as after its `save`. Without
 * `as`, any commit is a success. A life that has never joined does not join here: that would void
 * what another life has delivered.
 */
export async function finishVersion(
  run: RunContext,
  options: CommitWaitOptions & {
    signal: AbortSignal;
    version?: VersionInput | undefined;
    as?: LifeInAttempt | undefined;
  },
): Promise<CatalogCheckpoint> {
  const { signal, as } = options;
  const head = await readRun(run, signal);
  const version =
    options.version === undefined ? await highestDelivered(run, head, signal) : toVersion(options.version);
  const { answer: committed } = await run.catalog.ask(({ state }) => findByVersion(state, version), signal);
  if (committed) {
    if (as) await assertHasFilesOf(run, committed, as, signal);
    return committed;
  }
  const { lineage, epoch } = head.state;
  const id = { lineage, epoch, version };
  return finalise(run, {
    id,
    runId: head.runId,
    own: as && (await receiptOf(run, { head, id, as, signal })),
    timeoutMs: options.timeoutMs ?? 0, // does not wait unless a timeout is given
    signal,
    onProgress: options.onProgress,
  });
}

/**
 * Registers the claim of the life. As long as no later claim counts, only a commit with this
 * receipt is possible.
 */
async function receiptOf(
  run: RunContext,
  { head, id, as, signal }: { head: Head; id: CheckpointId; as: LifeInAttempt; signal: AbortSignal },
): Promise<OwnReceipt> {
  const { life, attempt, writer } = as;
  const place = { lineage: id.lineage, epoch: id.epoch, writer: writer.index };
  if (isPastAttempt(head.state, attempt.id)) throw fencedAttempt(run, head, attempt);
  const isCurrent = head.state.attempt === attempt.id;
  const incarnation = isCurrent ? await ownClaim(run, place, life, signal) : null;
  if (incarnation === null) throw notDelivered(run, as, id);
  await registerOwn(run, { ...place, incarnation }, signal);
  const receipt = await findReceipt(run, id, { writer: writer.index, incarnation }, signal);
  if (!receipt) throw notDelivered(run, as, id);
  return { ...receipt, position: writer, incarnation };
}

/**
 * `Conflict`: the commit has the files of another life of this writer, or the record that tells
 * which life it was is deleted.
 */
async function assertHasFilesOf(
  run: RunContext,
  committed: CatalogCheckpoint,
  { life, writer }: LifeInAttempt,
  signal: AbortSignal,
): Promise<void> {
  const manifest = await readManifest(run, committed, signal);
  const own = receiptPlaces(manifest).find((each) => each.writer === writer.index);
  const { lineage, epoch, version } = committed.id;
  const place: ClaimPlace = { lineage, epoch, writer: writer.index };
  const claim = own && (await readClaim(run, { ...place, incarnation: own.incarnation }, signal));
  if (claim?.life === life) return;
  const why =
    claim === null
      ? `and it is not known whether it has the files of life "${life}": the claims of its epoch are deleted`
      : `without the files of life "${life}" of writer ${writer.index}`;
  throw new CheckpointError('Conflict', `version ${version} is committed already, ${why}`, {
    context: { store: run.store.uri, version, writer: writer.index },
  });
}

function notDelivered(
  { store }: RunContext,
  { life, attempt, writer }: LifeInAttempt,
  { version }: CheckpointId,
): CheckpointError {
  return new CheckpointError(
    'NotFound',
    `life "${life}" of writer ${writer.index} has not delivered version ${version} in attempt "${attempt.id}"`,
    { context: { store: store.uri, version, writer: writer.index, attempt: attempt.id } },
  );
}
