/** A stretch in which training stands still. It is bounded in time, and whatever happens in it, training goes on again and is told so once. */

import type { ConsistencyOptions } from '../contract/checkpoint-manager.ts';
import {
  abortError,
  CheckpointError,
  isCheckpointError,
  throwIfAborted,
  unlessAborted,
} from '../contract/errors.ts';
import { withDeadline } from './deadline.ts';
import type { Engine } from './engine.ts';

type PauseHook = NonNullable<ConsistencyOptions['pause']>;

export interface Pause {
  readonly hook: PauseHook;
  /** From the call of the hook until training goes on. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** What is done meanwhile, for messages: "copying the files". */
  readonly what: string;
}

/** May be called again: training is told once. Resolves to what went wrong with that; never rejects. */
type Resume = () => Promise<CheckpointError | undefined>;

/**
 * Runs `work` between the hook and what it resolved to. `TimedOut`: that took too long, and the message says what did. When the deadline or
 * the caller's signal ends it, training goes on at once, before `work` has wound down: what `work` read is of no use then.
 */
export async function whilePaused<T>(
  engine: Pick<Engine, 'clock' | 'logger'>,
  { hook, timeoutMs, signal, what }: Pause,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  let doing = 'pause()';
  const bounds = { clock: engine.clock, timeoutMs, what: () => doing, signal };
  return withDeadline(bounds, async (until) => {
    const resume = await callHook(engine, hook, until);
    doing = `pause() and ${what}`;
    const resumeEarly = () => void resume();
    until.addEventListener('abort', resumeEarly, { once: true });
    let result: T;
    try {
      throwIfAborted(until);
      result = await work(until);
    } catch (error) {
      void resume().then((problem) => tell(engine, problem));
      await unlessAborted(resume(), until).catch(() => undefined); // it is bounded; the error is the work's
      throw until.aborted ? abortError(until) : error;
    } finally {
      until.removeEventListener('abort', resumeEarly);
    }
    doing = `pause(), ${what} and letting training go on`;
    // It rejects if the time was up before: what was read after the end of the pause is never delivered.
    const problem = await unlessAborted(resume(), until);
    if (problem) throw problem;
    return result;
  });
}

/** Does not wait longer for the hook than `until`: training that stands still too late goes on again as soon as it stands. */
async function callHook(
  engine: Pick<Engine, 'logger'>,
  hook: PauseHook,
  until: AbortSignal,
): Promise<Resume> {
  throwIfAborted(until);
  const called = (async () => resumeOnce(await hook(until)))();
  try {
    return await unlessAborted(called, until);
  } catch (error) {
    if (!until.aborted) throw hookError('pause()', error);
    const resumeLate = async (resume: Resume) => tell(engine, await resume());
    void called.then(resumeLate, () => undefined); // a hook that fails has stopped nothing
    throw abortError(until);
  }
}

function resumeOnce(resume: unknown): Resume {
  if (typeof resume !== 'function') {
    throw new CheckpointError(
      'InvalidArgument',
      `pause() resolved to ${resume === null ? 'null' : typeof resume}; it takes a function that lets training go on`,
    );
  }
  const call = async () => {
    try {
      await resume();
      return undefined;
    } catch (error) {
      return hookError('letting training go on after pause()', error);
    }
  };
  let outcome: ReturnType<Resume> | undefined;
  return () => {
    outcome ??= call();
    return outcome;
  };
}

/** Nobody waits for it any more. */
function tell({ logger }: Pick<Engine, 'logger'>, problem: CheckpointError | undefined): void {
  if (problem) logger.log('warn', problem.message);
}

/** An error of ours stays as it is. */
export function hookError(hook: string, error: unknown): CheckpointError {
  if (isCheckpointError(error)) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new CheckpointError('Unexpected', `${hook} failed: ${message}`, { cause: error });
}
