/** Makes an older checkpoint the latest again. */

import { CheckpointError } from '../../contract/errors.ts';
import type { RollbackOptions, RollbackResult } from '../../contract/history.ts';
import { type CatalogCheckpoint, type CheckpointId, toReference } from '../../format/index.ts';
import { isReason, REASON_LENGTH_MAX } from '../../plan/reason.ts';
import { requireRollbackTarget } from '../../plan/select.ts';
import { checkpointsAtHand, onPathAbove } from '../../plan/state.ts';
import type { Head } from '../catalog/index.ts';
import { decide, type RunContext } from '../run/index.ts';

export async function rollback(
  run: RunContext,
  { to, reason, signal }: RollbackOptions,
): Promise<RollbackResult> {
  const wanted = toReference(to);
  const { version } = wanted;
  checkReason(reason);
  let leaves: number | undefined;
  let planned: { id: CheckpointId; left: readonly CheckpointId[] } | undefined;
  const plan = ({ state }: Head) => {
    const { lineage } = state;
    leaves ??= lineage;
    if (lineage !== leaves) {
      // Another rollback was committed since this one was planned. A person must decide whether to
      // roll back again from there.
      throw new CheckpointError('Conflict', 'another rollback came first; nothing was changed', {
        context: { store: run.store.uri, version },
      });
    }
    const { id } = requireRollbackTarget(state, wanted);
    planned = { id, left: onPathAbove(state, version).map((each) => each.id) };
    return { kind: 'rollback', lineage, checkpoint: id, reason } as const;
  };
  const { before, after } = await decide(run, plan, { what: 'the rollback', signal });
  const { id, left } = planned as NonNullable<typeof planned>;
  const leftBehind = [...left, ...committedMeanwhile(before, after)]
    .map((each) => each.version)
    .sort((a, b) => (a < b ? -1 : 1));
  return { id, version, lineage: before.state.lineage + 1, leftBehind };
}

function checkReason(reason: unknown): void {
  if (isReason(reason)) return;
  const found = typeof reason === 'string' ? `${reason.length} characters` : typeof reason;
  throw new CheckpointError(
    'InvalidArgument',
    `a rollback needs a reason of 1 to ${REASON_LENGTH_MAX} characters, not only spaces; it has ${found}`,
  );
}

/** Checkpoints that were committed between planning and decision are left behind as well. */
function committedMeanwhile(before: Head, after: Head): CheckpointId[] {
  const { lineage, top } = before.state;
  const isNew = ({ id }: CatalogCheckpoint) => id.lineage === lineage && id.version > top;
  return checkpointsAtHand(after.state)
    .filter((each) => each.rolledBack && isNew(each))
    .map(({ id }) => id);
}
