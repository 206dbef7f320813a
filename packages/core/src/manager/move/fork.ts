/** Starts a run with a checkpoint of another run. */

import { CheckpointError } from '../../contract/errors.ts';
import type { ForkOptions, ForkResult } from '../../contract/history.ts';
import { chooseCheckpoint, requireLive } from '../../plan/select.ts';
import { countCheckpoints } from '../../plan/state.ts';
import type { Head } from '../catalog/index.ts';
import { wantedReference } from '../read/index.ts';
import { askRun, type RunContext } from '../run/index.ts';
import { mirror } from './mirror.ts';

/** `options.signal` also fires when one of the managers is closed; `caller` is the caller's own. */
export async function fork(
  source: RunContext,
  target: RunContext,
  options: ForkOptions & { readonly signal: AbortSignal; readonly caller: AbortSignal | undefined },
): Promise<ForkResult> {
  const { signal, caller, onProgress } = options;
  const wanted = wantedReference(options.version);
  const choose = ({ state }: Head) => requireLive(chooseCheckpoint(state, wanted)).id;
  const { answer: id, head: from } = await askRun(source, choose, signal);
  const assertTarget = (head: Head) => assertFresh(source, target, from.runId, head);
  assertTarget(await target.catalog.read(signal));
  const versions = [id.version];
  const { copied, skipped } = await mirror(source, target, {
    ...{ versions, signal, caller, onProgress },
    reason: `fork of version ${id.version} (lineage ${id.lineage}) of ${source.store.uri}`,
    assertTarget, // checked again: another fork may have begun the run meanwhile
  });
  const [copy] = copied;
  if (copy) return { from: id, ...copy };
  const why = skipped[0]?.reason ?? 'another fork made the same copy meanwhile';
  throw new CheckpointError(skipped[0] ? 'NotFound' : 'Conflict', `version ${id.version}: ${why}`, {
    context: { store: source.store.uri, version: id.version },
  });
}

function assertFresh(
  source: RunContext,
  target: RunContext,
  sourceRunId: string,
  { runId, state }: Head,
): void {
  const { uri } = target.store;
  const refuse = (code: 'InvalidArgument' | 'Conflict', why: string) =>
    new CheckpointError(code, `${source.store.uri} cannot be forked into ${uri}: ${why}`, {
      context: { store: uri },
    });
  if (runId === sourceRunId)
    throw refuse('InvalidArgument', 'both are the same run; use rollback to go back in it');
  const { count, newest } = countCheckpoints(state);
  if (newest) {
    const more = count > 1 ? `, and ${count - 1} more` : '';
    throw refuse('Conflict', `it already holds version ${newest.version}${more}`);
  }
  if (state.top >= 0n) throw refuse('Conflict', `it has held checkpoints, up to version ${state.top}`);
}
