/** Applies the rules of the run after each commit of this process: off the save path, one at a time, and never a reason for it to fail. */

import { CheckpointError } from '../contract/errors.ts';
import { hasRules } from '../plan/retention-policy.ts';
import type { Catalog, Head } from './catalog.ts';
import { collectAfterCommit } from './collect.ts';
import { withDeadline } from './deadline.ts';
import type { Engine } from './engine.ts';
import { bringRules, rulesInForce } from './run-rules.ts';

/** What is not done by then is done after a later commit. */
const TIMEOUT_MS = 10 * 60_000;
/** So long a process that ends waits for it. */
const CLOSE_TIMEOUT_MS = 10_000;

interface Due {
  readonly engine: Engine;
  readonly catalog: Catalog;
  /** The entry of the commit. */
  readonly head: Head;
}

export class BackgroundRetention {
  readonly #stop = new AbortController();
  #due: Due | undefined;
  #running: Promise<void> | undefined;

  /** A commit of this process has become entry `head`. Whoever made it calls `start` when the save is over. */
  isDue(engine: Engine, catalog: Catalog, head: Head): void {
    this.#due = { engine, catalog, head };
  }

  /** Returns at once; nothing is asked of the store before the caller goes on. Does nothing unless something is due. */
  start(): void {
    const due = this.#due;
    if (due === undefined || this.#stop.signal.aborted) return;
    this.#running ??= this.#run(due.engine).finally(() => {
      this.#running = undefined;
    });
  }

  /** Waits for what is under way, for a while, and then stops it. Nothing is started any more. Never throws. */
  async close({ clock }: Engine): Promise<void> {
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

  async #run({ clock, logger }: Engine): Promise<void> {
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

/** Without rules nothing is asked of the store, but for those of run.json once in the life of a manager. */
async function applyRules({ engine, catalog, head }: Due, signal: AbortSignal): Promise<void> {
  const { brought } = engine.rules;
  await bringRules(engine, catalog, signal);
  const rules = brought ?? (await rulesInForce(engine, head, signal));
  if (hasRules(rules)) await collectAfterCommit(engine, catalog, signal);
}
