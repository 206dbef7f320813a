/** The runs below the operands of the command, kept up to date while a page asks. */

import { CheckpointError, type Clock, type RunManager } from '@holdfast/core/contract';
import { type FleetPlace, FleetView as PlaceView, type RunSummary } from '@holdfast/fleet';
import type { CopyOrigin, FleetView, Problem, Spark } from './api.ts';

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
  readonly places: readonly FleetPlace[];
  readonly env: Readonly<Record<string, string | undefined>> | undefined;
  readonly clock: Clock;
  readonly open: (uri: string) => Promise<RunManager>;
}

export class Fleet {
  readonly #sources: FleetSources;
  readonly #end = new AbortController();
  /** One for each place. */
  readonly #views: readonly PlaceView[];
  #looking: Promise<void> | null = null;
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  #doneAtMs: number | null = null;
  #version = 0;
  /** By URI, the most recently used last. */
  readonly #sparks = new Map<string, { readonly seq: number | null; readonly spark: Spark }>();

  constructor(sources: FleetSources) {
    this.#sources = sources;
    const { places, env, clock } = sources;
    // The first look takes long if there are many runs, so the page shows each at once.
    const onRun = () => {
      if (this.#doneAtMs === null) this.#version += 1;
    };
    this.#views = places.map(
      (place) => new PlaceView(place, { env, clock, concurrency: CONCURRENCY, onRun }),
    );
  }

  isFound(uri: string): boolean {
    return this.#run(uri) !== undefined;
  }

  /** Names the run if it is among those that were found. */
  withUri(origin: CopyOrigin): CopyOrigin {
    const found = this.#runs().find(({ runId }) => runId === origin.runId);
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
    return {
      version: this.#version,
      doneAtMs: this.#doneAtMs,
      isLooking: this.#looking !== null,
      problem: this.#problem(),
      runs: this.#runs(),
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
    const summary = this.#run(uri);
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

  /** A slow place delays no other one: each is shown when its own search ends. */
  async #look(): Promise<void> {
    const { clock } = this.#sources;
    this.#lookedAtMs = clock.monotonicMs();
    try {
      await Promise.all(this.#views.map((view) => this.#refresh(view)));
      if (this.#problem() === null) this.#doneAtMs = clock.nowMs();
    } catch {
      // `refresh` rejects only when the server ends.
    } finally {
      this.#version += 1;
      this.#lookedAtMs = clock.monotonicMs();
    }
  }

  async #refresh(view: PlaceView): Promise<void> {
    await view.refresh(this.#end.signal);
    this.#version += 1;
  }

  #problem(): Problem | null {
    return this.#views.find(({ problem }) => problem !== null)?.problem ?? null;
  }

  #run(uri: string): RunSummary | undefined {
    for (const view of this.#views) {
      const run = view.run(uri);
      if (run !== undefined) return run;
    }
    return undefined;
  }

  /** A run below two places is shown once. */
  #runs(): readonly RunSummary[] {
    const runs = new Map<string, RunSummary>();
    for (const run of this.#views.flatMap((view) => view.runs))
      if (!runs.has(run.uri)) runs.set(run.uri, run);
    return [...runs.values()];
  }

  close(): void {
    this.#end.abort(new CheckpointError('Aborted', 'the server ends'));
  }
}
