/** Makes an older checkpoint the latest again. */

import { CheckpointError } from '../contract/errors.ts';
import type { RollbackOptions, RollbackResult } from '../contract/history.ts';
import { idText, toVersion } from '../format/index.ts';
import { requireRollbackTarget } from '../plan/select.ts';
import type { Catalog, Head } from './catalog.ts';
import { decide } from './decide.ts';
import type { Engine } from './engine.ts';

const REASON_LENGTH_MAX = 1000;

export async function rollback(
  engine: Engine,
  catalog: Catalog,
  { to, reason, signal }: RollbackOptions,
): Promise<RollbackResult> {
  const version = toVersion(to);
  checkReason(reason);
  let leaves: number | undefined;
  const plan = ({ state }: Head) => {
    const { lineage } = state;
    leaves ??= lineage;
    if (lineage !== leaves) {
      // Going back once more from where somebody else has just gone back to is for a person to decide.
      throw new CheckpointError('Conflict', 'another rollback came first; nothing was changed', {
        context: { store: engine.store.uri, version },
      });
    }
    const { id } = requireRollbackTarget(state, version);
    return { kind: 'rollback', lineage, checkpoint: id, reason } as const;
  };
  const { before, after } = await decide(engine, catalog, plan, { what: 'the rollback', signal });
  const { id } = requireRollbackTarget(before.state, version);
  return { id, version, lineage: before.state.lineage + 1, leftBehind: leftBehind(before, after) };
}

function checkReason(reason: unknown): void {
  const isText = typeof reason === 'string' && reason.trim() !== '' && reason.length <= REASON_LENGTH_MAX;
  if (isText) return;
  const found = typeof reason === 'string' ? `${reason.length} characters` : typeof reason;
  throw new CheckpointError(
    'InvalidArgument',
    `a rollback needs a reason of 1 to ${REASON_LENGTH_MAX} characters, not only spaces; it has ${found}`,
  );
}

/** One that was committed after the decision was planned and before it was taken is among them. */
function leftBehind(before: Head, after: Head): bigint[] {
  const leftBefore = new Set(
    before.state.checkpoints.filter((each) => each.rolledBack).map(({ id }) => idText(id)),
  );
  const left = after.state.checkpoints.filter(
    ({ rolledBack, id }) => rolledBack && !leftBefore.has(idText(id)),
  );
  return left.map(({ id }) => id.version).sort((a, b) => (a < b ? -1 : 1));
}
