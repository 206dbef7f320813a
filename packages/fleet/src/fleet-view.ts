/** The runs of one place, kept up to date by one search after another. */

import { type Clock, isStopOf, systemClock, toCheckpointError } from '@holdfast/core/contract';
import { type FleetOptions, type FleetPlace, fleetOf } from './fleet.ts';
import type { RunProblem, RunSummary } from './run-summary.ts';

export interface FleetViewOptions extends Omit<FleetOptions, 'signal'> {
  /** Called with each run as soon as it is known. Must not throw. */
  readonly onRun?: ((run: RunSummary) => void) | undefined;
}

/**
 * Remembers the last known facts of each run. If a run can no longer be read, its state and problem
 * change, and its other facts stay as they were at `asOfMs`. A run that a complete search no longer
 * finds is dropped.
 */
export class FleetView {
  readonly place: FleetPlace;
  readonly #options: FleetViewOptions;
  readonly #clock: Clock;
  readonly #runs = new Map<string, RunSummary>();
  #refreshedAtMs: number | null = null;
  #problem: RunProblem | null = null;

  constructor(place: FleetPlace, options: FleetViewOptions = {}) {
    this.place = place;
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** All known runs, in the order in which they were found first. */
  get runs(): readonly RunSummary[] {
    return [...this.#runs.values()];
  }

  /** When the last complete search ended, by this machine's clock; `null`: there was none. */
  get refreshedAtMs(): number | null {
    return this.#refreshedAtMs;
  }

  /** Why the last search as a whole failed; `null`: it did not. */
  get problem(): RunProblem | null {
    return this.#problem;
  }

  /**
   * Searches once. A search that fails as a whole is told by `problem`, and all runs stay. Rejects
   * only when `signal` fires. Call it again only after it has settled.
   */
  async refresh(signal?: AbortSignal): Promise<void> {
    const { onRun, ...options } = this.#options;
    const found = new Map<string, RunSummary>();
    try {
      for await (const run of fleetOf([this.place], { ...options, signal })) {
        found.set(run.uri, run);
        const merged = this.#merged(run);
        this.#runs.set(run.uri, merged);
        onRun?.(merged);
      }
      this.#problem = null;
      this.#refreshedAtMs = this.#clock.nowMs();
    } catch (thrown) {
      if (isStopOf(thrown, signal)) throw thrown;
      const { code, message } = toCheckpointError(thrown);
      this.#problem = { code, message };
      return;
    }
    this.#forget(found);
  }

  #merged(run: RunSummary): RunSummary {
    const before = this.#runs.get(run.uri);
    if (run.asOfMs !== null || before === undefined || before.asOfMs === null) return run;
    return { ...before, state: run.state, problem: run.problem, checkedAtMs: run.checkedAtMs };
  }

  /** Drops what was not found, but not below a directory that could not be listed. */
  #forget(found: ReadonlyMap<string, RunSummary>): void {
    const unlisted = [...found.values()].filter((run) => run.problem !== null && run.asOfMs === null);
    for (const [uri, run] of this.#runs) {
      if (found.has(uri)) continue;
      const above = unlisted.find(({ name }) => name === '' || run.name.startsWith(`${name}/`));
      if (above === undefined) this.#runs.delete(uri);
      else
        this.#runs.set(uri, {
          ...run,
          state: above.state,
          problem: above.problem,
          checkedAtMs: above.checkedAtMs,
        });
    }
  }
}
