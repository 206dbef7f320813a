/** A run that begins with a checkpoint of another. */

import { CheckpointError } from '../contract/errors.ts';
import type { ForkOptions, ForkResult } from '../contract/history.ts';
import { chooseCheckpoint, requireLive } from '../plan/select.ts';
import type { RunSide } from './catalog.ts';
import { readRun } from './decide.ts';
import { mirror } from './mirror.ts';
import { wantedVersion } from './restore.ts';

/** `options.signal` also fires when one of the managers is closed; `caller` is the caller's own. */
export async function fork(
  source: RunSide,
  target: RunSide,
  options: ForkOptions & { readonly signal: AbortSignal; readonly caller: AbortSignal | undefined },
): Promise<ForkResult> {
  const { signal, caller, onProgress } = options;
  const wanted = wantedVersion(options.version);
  const from = await readRun(source.engine, source.catalog, signal);
  const { id } = requireLive(chooseCheckpoint(from.state, wanted));
  await assertFresh(source, target, from.runId, signal);
  const versions = [id.version];
  const { copied, skipped } = await mirror(source, target, { versions, signal, caller, onProgress });
  const [copy] = copied;
  if (copy) return { from: id, ...copy };
  const why = skipped[0]?.reason ?? 'another fork has made the same copy meanwhile';
  throw new CheckpointError(skipped[0] ? 'NotFound' : 'Conflict', `version ${id.version}: ${why}`, {
    context: { store: source.engine.store.uri, version: id.version },
  });
}

async function assertFresh(
  source: RunSide,
  { engine, catalog }: RunSide,
  sourceRunId: string,
  signal: AbortSignal,
): Promise<void> {
  const { runId, state } = await catalog.read(signal);
  const { uri } = engine.store;
  const refuse = (code: 'InvalidArgument' | 'Conflict', why: string) =>
    new CheckpointError(code, `${source.engine.store.uri} cannot be forked into ${uri}: ${why}`, {
      context: { store: uri },
    });
  if (runId === sourceRunId)
    throw refuse('InvalidArgument', 'both are one run; rollback goes back within it');
  const newest = state.checkpoints.at(-1)?.id.version;
  if (newest !== undefined) {
    const more = state.checkpoints.length - 1;
    throw refuse('Conflict', `it holds version ${newest} already${more > 0 ? `, and ${more} more` : ''}`);
  }
  if (state.top >= 0n) throw refuse('Conflict', `it has held checkpoints, up to version ${state.top}`);
}
