/** The runs below the operands of the command, kept up to date while a page asks. */

import { CheckpointError, type Clock, type RunManager, toCheckpointError } from '@holdfast/core/contract';
import { fleetOf, type RunSummary } from '@holdfast/fleet';
import type { CopyOrigin, FleetView, Problem, Spark } from './api.ts';
import { problemOf } from './rows.ts';

/** A look takes about three small requests for each run: no more than one in ten seconds. */
const REFRESH_MS = 30_000;
/** Fewer than the default: the page shows what is found meanwhile, and memory stays small. */
const CONCURRENCY = 8;
const SPARK_COMMITS = 40;
/** Runs of one request of the page. */
export const SPARK_RUNS_MAX = 50;
const SPARK_TIMEOUT_MS = 20_000;
const SPARKS_KEPT = 2000;

export interface FleetSources {
  readonly uris: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>> | undefined;
  readonly clock: Clock;
  readonly open: (uri: string) => Promise<RunManager>;
}

export class Fleet {
  readonly #sources: FleetSources;
  readonly #end = new AbortController();
  #runs: ReadonlyMap<string, RunSummary> = new Map();
  /** The look in progress fills it; the former one is shown until it ends. */
  #finding = new Map<string, RunSummary>();
  #problem: Problem | null = null;
  #looking: Promise<void> | null = null;
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  #doneAtMs: number | null = null;
  #version = 0;
  /** By URI, the most recently used last. */
  readonly #sparks = new Map<string, { readonly seq: number | null; readonly spark: Spark }>();

  constructor(sources: FleetSources) {
    this.#sources = sources;
  }

  isFound(uri: string): boolean {
    return this.#runs.has(uri) || this.#finding.has(uri);
  }

  /** Names the run if it is among those that were found. */
  withUri(origin: CopyOrigin): CopyOrigin {
    const found = [...this.#runs.values(), ...this.#finding.values()].find(
      ({ runId }) => runId === origin.runId,
    );
    return { ...origin, uri: found?.uri ?? null };
  }

  /** Starts a look if the last one is long ago, and answers at once with what is known. */
  async view(): Promise<FleetView> {
    const { clock } = this.#sources;
    if (this.#looking === null && clock.monotonicMs() - this.#lookedAtMs >= REFRESH_MS)
      this.#looking = this.#look().finally(() => (this.#looking = null));
    // A small place is known at once, so that the first answer is not empty.
    if (this.#doneAtMs === null)
      await Promise.race([this.#looking, clock.sleep(500, this.#end.signal).catch(() => undefined)]);
    const isFirst = this.#doneAtMs === null;
    return {
      version: this.#version,
      doneAtMs: this.#doneAtMs,
      isLooking: this.#looking !== null,
      problem: this.#problem,
      runs: [...(isFirst ? this.#finding : this.#runs).values()],
    };
  }

  /** Times of the newest commits of these runs. A run that cannot be read has no spark. */
  async sparks(uris: readonly string[], signal: AbortSignal): Promise<readonly Spark[]> {
    const found: Spark[] = [];
    for (const uri of uris) {
      const spark = await this.#spark(uri, signal).catch(() => null);
      if (spark !== null) found.push(spark);
    }
    return found;
  }

  async #spark(uri: string, signal: AbortSignal): Promise<Spark | null> {
    const summary = this.#runs.get(uri) ?? this.#finding.get(uri);
    if (summary === undefined)
      throw new CheckpointError('InvalidArgument', 'this page was not started for that run');
    const known = this.#sparks.get(uri);
    if (known !== undefined && known.seq === summary.seq) return known.spark;
    await using run = await this.#sources.open(uri);
    const until = AbortSignal.any([signal, this.#end.signal, AbortSignal.timeout(SPARK_TIMEOUT_MS)]);
    const newest = await run.list({ limit: SPARK_COMMITS, signal: until });
    const spark = { uri, commitsMs: newest.map(({ committedAtMs }) => committedAtMs) };
    this.#sparks.delete(uri);
    this.#sparks.set(uri, { seq: summary.seq, spark });
    const [oldest] = this.#sparks.keys();
    if (this.#sparks.size > SPARKS_KEPT && oldest !== undefined) this.#sparks.delete(oldest);
    return spark;
  }

  async #look(): Promise<void> {
    const { uris, env, clock } = this.#sources;
    this.#lookedAtMs = clock.monotonicMs();
    this.#finding = new Map();
    try {
      for await (const summary of fleetOf(uris, {
        env,
        clock,
        concurrency: CONCURRENCY,
        signal: this.#end.signal,
      })) {
        this.#finding.set(summary.uri, this.#kept(summary));
        if (this.#doneAtMs === null) this.#version += 1;
      }
      this.#problem = null;
      this.#runs = this.#finding;
      this.#doneAtMs = clock.nowMs();
    } catch (error) {
      // A place that cannot be listed: what was known stays, with its time.
      this.#problem = toCheckpointError(error).code === 'Aborted' ? null : problemOf(error);
    } finally {
      this.#version += 1;
      this.#lookedAtMs = clock.monotonicMs();
    }
  }

  /** A run that does not answer now keeps the facts of the last look, with their time. */
  #kept(summary: RunSummary): RunSummary {
    const before = this.#runs.get(summary.uri);
    if (summary.asOfMs !== null || before === undefined) return summary;
    const { state, problem, checkedAtMs } = summary;
    return { ...before, state, problem, checkedAtMs };
  }

  close(): void {
    this.#end.abort(new CheckpointError('Aborted', 'the server ends'));
  }
}
