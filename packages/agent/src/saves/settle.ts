/** Finds out what became of a commit whose answer was lost. */

import {
  CheckpointError,
  type CheckpointId,
  isCheckpointError,
  type RunManager,
  systemClock,
  toCheckpointError,
} from '@holdfast/core/contract';

/** The store has not answered for a while already; it gets this long again. */
const SETTLE_TIMEOUT_MS = 10 * 60_000;
const PAUSE_MS = 5000;
/** A save whose time is over takes this much longer to learn how it ended. */
const LOOK_TIMEOUT_MS = 5000;

export type Settled =
  | { readonly id: CheckpointId; readonly error?: undefined }
  | { readonly id?: undefined; readonly error: CheckpointError };

/**
 * `error`: an `OutcomeUnknown`. It is returned again if the outcome stays unknown, and as soon as
 * the signal fires.
 */
export async function settle(
  manager: Pick<RunManager, 'recover' | 'commit'>,
  error: CheckpointError,
  { version, signal }: { readonly version: bigint; readonly signal?: AbortSignal | undefined },
  clock = systemClock,
): Promise<Settled> {
  const { token } = error.context;
  if (token === undefined) return { error };
  const untilMs = clock.monotonicMs() + SETTLE_TIMEOUT_MS;
  for (;;) {
    try {
      const { outcome, id, detail } = await manager.recover(token, { signal });
      if (outcome === 'committed' && id) return { id };
      if (outcome === 'not-committed')
        return {
          error: new CheckpointError('Unavailable', `version ${version} was not committed: ${detail}`, {
            cause: error,
          }),
        };
      if (outcome === 'unknown') return { error };
      return { id: (await manager.commit({ version, timeoutMs: 0, signal })).id };
    } catch (failure) {
      const { status } = toCheckpointError(failure);
      if (status === 'permanent' || signal?.aborted || clock.monotonicMs() >= untilMs) return { error };
      await clock.sleep(PAUSE_MS, signal).catch(() => undefined);
    }
  }
}

/**
 * For a save whose time is over: one look, which commits it if nothing is missing. `Incomplete`
 * names the missing writers. Otherwise `error` is returned as it is: the outcome stays unknown.
 */
export async function lookOnce(
  manager: Pick<RunManager, 'commit'>,
  error: CheckpointError,
  version: bigint,
): Promise<Settled> {
  const signal = AbortSignal.timeout(LOOK_TIMEOUT_MS);
  try {
    return { id: (await manager.commit({ version, timeoutMs: 0, signal })).id };
  } catch (failure) {
    return { error: isCheckpointError(failure, 'Incomplete') ? failure : error };
  }
}
