/** The runs of one place, kept up to date by one search after another. */

import { type Clock, isStopOf, systemClock, toCheckpointError } from '@holdfast/core/contract';
import { type FleetOptions, type FleetPlace, fleetOf } from './fleet.ts';
import { isCertainlyRun, type RunProblem, type RunSummary } from './run-summary.ts';

export interface FleetViewOptions extends Omit<FleetOptions, 'signal'> {
  /** Called with each run as soon as it is known. Must not throw. */
  readonly onRun?: ((run: RunSummary) => void) | undefined;
}

/**
 * Remembers the last known facts of each run. If a run can no longer be read, its state and problem
 * change, and its other facts stay as they were at `asOfMs`. A run that a complete search no longer
 * finds is dropped.
 *
 * A search that cannot read the place itself has failed: the runs below it were not looked for. The
 * place is then no run, unless one was found there before.
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

  /** The known run of this URI. */
  run(uri: string): RunSummary | undefined {
    return this.#runs.get(uri);
  }

  /** When the last complete search ended, by this machine's clock; `null`: there was none. */
  get refreshedAtMs(): number | null {
    return this.#refreshedAtMs;
  }

  /** Why the last search failed as a whole; `null`: it did not. */
  get problem(): RunProblem | null {
    return this.#problem;
  }

  /**
   * Searches once. If the search fails as a whole, `problem` says why, and all runs stay. Rejects
   * only when `signal` fires. Call it again only after it has settled.
   */
  async refresh(signal?: AbortSignal): Promise<void> {
    const { onRun, ...options } = this.#options;
    const found = new Map<string, RunSummary>();
    let problem: RunProblem | null = null;
    try {
      for await (const run of fleetOf([this.place], { ...options, signal })) {
        found.set(run.uri, run);
        if (run.name === '' && !isCertainlyRun(run)) {
          problem = run.problem;
          if (!this.#runs.has(run.uri)) continue; // Nothing says that the place is a run.
        }
        const merged = this.#merged(run);
        this.#runs.set(run.uri, merged);
        onRun?.(merged);
      }
      this.#problem = problem;
      if (problem === null) this.#refreshedAtMs = this.#clock.nowMs();
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
