/**
 * After a call that ended in `OutcomeUnknown`, asks the store once more for the outcome, while it
 * is still open.
 */

import {
  CheckpointError,
  isCheckpointError,
  type RecoverResult,
  type RunManager,
} from '@holdfast/core/contract';
import type { Call } from './command.ts';

/** A person waits at the screen, or a scheduler is about to kill the process. */
const ASK_TIMEOUT_MS = 2000;

/** The store's later answer, in the context of the reported error. */
export interface Asked extends Pick<RecoverResult, 'outcome' | 'of' | 'isDelivered'> {
  /** As text. */
  readonly detail: string;
  /** What ended the call, as text. */
  readonly ended: string;
}

/**
 * Returns the error to report: the original one if the store does not tell the outcome within two
 * seconds.
 */
export async function askOnceMore(
  thrown: unknown,
  manager: Pick<RunManager, 'recover'>,
  call: Pick<Call, 'clock'>,
): Promise<unknown> {
  if (!isCheckpointError(thrown, 'OutcomeUnknown') || askedOf(thrown) !== null) return thrown;
  const { token } = thrown.context;
  if (token === undefined) return thrown;
  const late = new AbortController();
  const over = new AbortController();
  call.clock.sleep(ASK_TIMEOUT_MS, over.signal).then(
    () => late.abort(),
    () => undefined, // It has answered before.
  );
  try {
    return toldError(thrown, await manager.recover(token, { signal: late.signal }));
  } catch {
    return thrown; // It contains all that is known.
  } finally {
    over.abort();
  }
}

/** Returns the store's later answer; `null` if it was not asked. */
export function askedOf({ context }: CheckpointError): Asked | null {
  return (context['asked'] as Asked | undefined) ?? null;
}

/**
 * If the outcome is known, the error still reports what ended the call: an abort, a deadline, or a
 * store that did not answer.
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
