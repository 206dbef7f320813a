/**
 * A pause of training. It is bounded in time. Whatever happens, training continues afterwards and
 * is told so once.
 */

import type { ConsistencyOptions } from '../../contract/checkpoint-manager.ts';
import {
  abortError,
  CheckpointError,
  isCheckpointError,
  throwIfAborted,
  unlessAborted,
} from '../../contract/errors.ts';
import { withDeadline } from '../records/index.ts';
import type { RunContext } from '../run/index.ts';

type PauseHook = NonNullable<ConsistencyOptions['pause']>;

export interface Pause {
  readonly hook: PauseHook;
  /** From the call of the hook until training continues. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** The work during the pause, for messages: "copying the files". */
  readonly what: string;
}

/**
 * May be called again: training is told only once. Resolves to the error of the callback, if any;
 * never rejects.
 */
type Resume = () => Promise<CheckpointError | undefined>;

/**
 * Calls the hook, runs `work`, then calls the function that the hook resolved to. `TimedOut`: the
 * pause took too long, and the message says in which step. If the deadline or the caller's signal
 * ends the pause, training continues at once, before `work` has stopped. The result of `work` is
 * discarded then.
 */
export async function whilePaused<T>(
  run: Pick<RunContext, 'clock' | 'logger'>,
  { hook, timeoutMs, signal, what }: Pause,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  let doing = 'pause()';
  const bounds = { clock: run.clock, timeoutMs, what: () => doing, signal };
  return withDeadline(bounds, async (until) => {
    const resume = await callHook(run, hook, until);
    doing = `pause() and ${what}`;
    const resumeEarly = () => void resume();
    until.addEventListener('abort', resumeEarly, { once: true });
    let result: T;
    try {
      throwIfAborted(until);
      result = await work(until);
    } catch (error) {
      void resume().then((problem) => tell(run, problem));
      // This wait is bounded in time. Its error is ignored: the error of `work` is thrown.
      await unlessAborted(resume(), until).catch(() => undefined);
      throw until.aborted ? abortError(until) : error;
    } finally {
      until.removeEventListener('abort', resumeEarly);
    }
    doing = `pause(), ${what} and resuming training`;
    // Rejects if time ran out before: data read after the end of the pause must not be delivered.
    const problem = await unlessAborted(resume(), until);
    if (problem) throw problem;
    return result;
  });
}

/**
 * Waits for the hook no longer than `until`. If the hook pauses training after that, training
 * continues as soon as the hook resolves.
 */
async function callHook(
  run: Pick<RunContext, 'logger'>,
  hook: PauseHook,
  until: AbortSignal,
): Promise<Resume> {
  throwIfAborted(until);
  const called = (async () => resumeOnce(await hook(until)))();
  try {
    return await unlessAborted(called, until);
  } catch (error) {
    if (!until.aborted) throw hookError('pause()', error);
    const resumeLate = async (resume: Resume) => tell(run, await resume());
    void called.then(resumeLate, () => undefined); // a hook that fails has paused nothing
    throw abortError(until);
  }
}

function resumeOnce(resume: unknown): Resume {
  if (typeof resume !== 'function') {
    throw new CheckpointError(
      'InvalidArgument',
      `pause() resolved to ${resume === null ? 'null' : typeof resume}; it must resolve to a function that resumes training`,
    );
  }
  const call = async () => {
    try {
      await resume();
      return undefined;
    } catch (error) {
      return hookError('resuming training after pause()', error);
    }
  };
  let outcome: ReturnType<Resume> | undefined;
  return () => {
    outcome ??= call();
    return outcome;
  };
}

/** Logs the problem, because no caller waits for it any more. */
function tell({ logger }: Pick<RunContext, 'logger'>, problem: CheckpointError | undefined): void {
  if (problem) logger.log('warn', problem.message);
}

/** A `CheckpointError` stays as it is. */
export function hookError(hook: string, error: unknown): CheckpointError {
  if (isCheckpointError(error)) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new CheckpointError('Unexpected', `${hook} failed: ${message}`, { cause: error });
}
