/**
 * Applies the retention rules of the run after each commit of this process. This runs outside the
 * save path, one at a time. A failure here never fails a save.
 */

import { CheckpointError } from '../../contract/errors.ts';
import { hasRules } from '../../plan/retention-policy.ts';
import type { Head } from '../catalog/index.ts';
import { withDeadline } from '../records/index.ts';
import { type AfterCommit, bringRules, type RunContext, rulesInForce } from '../run/index.ts';
import { collectAfterCommit } from './collect.ts';

/** Work that is not done by then is left to a later commit. */
const TIMEOUT_MS = 10 * 60_000;
/** How long `close` waits for work in progress. */
const CLOSE_TIMEOUT_MS = 10_000;

interface Due {
  readonly run: RunContext;
  /** The catalog entry of the commit. */
  readonly head: Head;
}

export class BackgroundRetention implements AfterCommit {
  readonly #stop = new AbortController();
  #due: Due | undefined;
  #running: Promise<void> | undefined;

  /**
   * Notes that a commit of this process became entry `head`. The caller calls `start` when the save
   * is over.
   */
  note(run: RunContext, head: Head): void {
    this.#due = { run, head };
  }

  /**
   * Starts retention if a commit was noted. Returns at once: the first request to the store is sent
   * after the caller has continued.
   */
  start(): void {
    const due = this.#due;
    if (due === undefined || this.#stop.signal.aborted) return;
    this.#running ??= this.#run(due.run).finally(() => {
      this.#running = undefined;
    });
  }

  /**
   * Starts what is due, waits up to 10 s for work in progress, then stops it. Nothing starts after
   * that. Never throws.
   */
  async close({ clock }: RunContext): Promise<void> {
    this.start();
    const running = this.#running;
    if (running !== undefined) {
      const bounds = { clock, timeoutMs: CLOSE_TIMEOUT_MS, what: 'waiting for retention', signal: undefined };
      await withDeadline(bounds, async (until) => {
        until.addEventListener('abort', () => this.#stop.abort(until.reason), { once: true });
        await running;
      });
    }
    this.#stop.abort(new CheckpointError('Aborted', 'the manager was closed'));
  }

  async #run({ clock, logger }: RunContext): Promise<void> {
    const { signal } = this.#stop;
    const bounds = { clock, timeoutMs: TIMEOUT_MS, what: 'retention after a commit', signal };
    try {
      await clock.sleep(0, signal);
      for (let due = this.#take(); due; due = this.#take()) {
        const now = due;
        await withDeadline(bounds, (until) => applyRules(now, until));
      }
    } catch (error) {
      logger.log('warn', 'the rules of the run were not applied; the next commit tries again', {
        error: String(error),
      });
    }
  }

  #take(): Due | undefined {
    const due = this.#due;
    this.#due = undefined;
    return due;
  }
}

/** If the run has no rules, no request is sent, except one GET of run.json per manager. */
async function applyRules({ run, head }: Due, signal: AbortSignal): Promise<void> {
  const { brought } = run.rules;
  await bringRules(run, signal);
  const rules = brought ?? (await rulesInForce(run, head, signal));
  if (hasRules(rules)) await collectAfterCommit(run, signal);
}
