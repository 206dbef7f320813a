/**
 * A call that ended in `OutcomeUnknown` is asked about once more, while its store is still open.
 */

import {
  CheckpointError,
  type CheckpointManager,
  isCheckpointError,
  type RecoverResult,
} from '@holdfast/core/contract';
import type { Call } from './command.ts';

/** Someone waits at the screen, or a scheduler that is about to kill. */
const ASK_TIMEOUT_MS = 2000;

/** What the store said when it was asked once more; in the context of the error that is told. */
export interface Asked extends Pick<RecoverResult, 'outcome' | 'of' | 'isDelivered'> {
  /** In words. */
  readonly detail: string;
  /** What ended the call, in words. */
  readonly ended: string;
}

/**
 * The error that is told. The one that was thrown, where the store does not say within two seconds
 * what became of the call.
 */
export async function askOnceMore(
  thrown: unknown,
  manager: Pick<CheckpointManager, 'recover'>,
  call: Pick<Call, 'clock'>,
): Promise<unknown> {
  if (!isCheckpointError(thrown, 'OutcomeUnknown') || askedOf(thrown) !== null) return thrown;
  const { token } = thrown.context;
  if (token === undefined) return thrown;
  const late = new AbortController();
  const over = new AbortController();
  call.clock.sleep(ASK_TIMEOUT_MS, over.signal).then(
    () => late.abort(),
    () => undefined, // it has answered before
  );
  try {
    return toldError(thrown, await manager.recover(token, { signal: late.signal }));
  } catch {
    return thrown; // it says all that is known
  } finally {
    over.abort();
  }
}

/** What was asked of it; `null`: nothing was. */
export function askedOf({ context }: CheckpointError): Asked | null {
  return (context['asked'] as Asked | undefined) ?? null;
}

/**
 * A settled outcome leaves what ended the call: a stop, a deadline, a store that did not answer.
 */
function toldError(
  unknown: CheckpointError,
  { outcome, of, isDelivered, detail }: RecoverResult,
): CheckpointError {
  const { cause } = unknown;
  const isSettled = outcome === 'committed' || outcome === 'not-committed';
  const ended = isCheckpointError(cause) ? cause : null;
  const code = !isSettled ? 'OutcomeUnknown' : (ended?.code ?? 'Unavailable');
  const asked: Asked = { outcome, of, isDelivered, detail, ended: ended?.message ?? 'the call failed' };
  const context = { ...unknown.context, asked };
  return new CheckpointError(code, `${asked.ended}; ${detail}`, { context });
}
