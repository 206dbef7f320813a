/** Runs in the text format of Prometheus. Pure. docs/monitoring.md lists the metrics. */

import { isCertainlyRun, type RunSummary } from '@holdfast/fleet';
import { STATES } from '../runs/select-runs.ts';
import type { OrphanFacts } from './orphans.ts';

export const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** What the exporter knows about one place. */
export interface PlaceReport {
  readonly uri: string;
  readonly runs: readonly RunSummary[];
  /** End of the last whole search; `null`: there was none. */
  readonly refreshedAtMs: number | null;
  readonly refreshDurationMs: number | null;
  readonly failureCount: number;
}

export interface MetricsOptions {
  readonly programVersion: string;
  /** Absent: orphaned objects are not looked for. */
  readonly orphansOf?: ((uri: string) => OrphanFacts | undefined) | undefined;
  /** Runs with metrics of their own: bounds the number of time series. */
  readonly runsMax: number;
}

type Labels = Readonly<Record<string, string>>;
interface Sample {
  readonly labels: Labels;
  readonly value: number;
}
interface Metric {
  readonly name: string;
  readonly type: 'gauge' | 'counter';
  readonly help: string;
}
interface RunMetric extends Metric {
  /** `null`: not known, so there is no sample. */
  readonly read: (run: RunSummary) => number | null;
}

const seconds = (ms: number | null) => (ms === null ? null : ms / 1000);

function missingWriterCount({ savesInProgress }: RunSummary): number | null {
  return savesInProgress?.reduce((sum, { missingWriters }) => sum + missingWriters.length, 0) ?? null;
}

/** Epochs and lineages count from 1, and the first of each fences none. */
function fenceCount({ epoch, lineage }: RunSummary): number | null {
  return epoch === null || lineage === null ? null : epoch - 1 + (lineage - 1);
}

const gauge = (name: string, help: string, read: RunMetric['read']): RunMetric => ({
  ...{ name, type: 'gauge', help, read },
});
const counter = (name: string, help: string, read: RunMetric['read']): RunMetric => ({
  ...{ name, type: 'counter', help, read },
});

/** One sample for each run, with the label `run`. */
export const RUN_METRICS: readonly RunMetric[] = [
  gauge(
    'holdfast_last_commit_timestamp_seconds',
    'Time of the latest commit, by the clock of the store.',
    (run) => seconds(run.latest?.committedAtMs ?? null),
  ),
  gauge('holdfast_latest_version', 'Version that a restart would load.', (run) =>
    run.latest === null ? null : Number(run.latest.version),
  ),
  gauge(
    'holdfast_latest_bytes',
    'Size of the version that a restart would load.',
    (run) => run.latest?.sizeBytes ?? null,
  ),
  gauge('holdfast_writers', 'Writers of the present attempt.', (run) => run.writerCount),
  gauge('holdfast_stored_bytes', 'Bytes sent for the checkpoints of the catalog.', (run) => run.storedBytes),
  gauge(
    'holdfast_referenced_bytes',
    'Bytes that checkpoints share with older ones.',
    (run) => run.referencedBytes,
  ),
  counter('holdfast_attempts_total', 'Attempts that have owned the run.', (run) => run.epoch),
  counter('holdfast_fenced_total', 'Takeovers and rollbacks that fenced older writers.', fenceCount),
  gauge(
    'holdfast_saves_in_progress',
    'Versions that are begun and not committed.',
    (run) => run.savesInProgress?.length ?? null,
  ),
  gauge(
    'holdfast_missing_writers',
    'Writers that have not delivered to a version in progress.',
    missingWriterCount,
  ),
  gauge(
    'holdfast_last_verified_timestamp_seconds',
    'When the newest verified checkpoint was verified, by the clock of the store.',
    (run) => seconds(run.verifiedAtMs),
  ),
  gauge(
    'holdfast_verified_commit_timestamp_seconds',
    'When the newest verified checkpoint was committed, by the clock of the store.',
    (run) => seconds(run.verifiedCommittedAtMs),
  ),
  gauge('holdfast_facts_timestamp_seconds', 'When the facts of the run were read.', (run) =>
    seconds(run.asOfMs),
  ),
  gauge('holdfast_checked_timestamp_seconds', 'When the run was last looked at.', (run) =>
    seconds(run.checkedAtMs),
  ),
];

const ORPHANED_BYTES: Metric = {
  name: 'holdfast_orphaned_bytes',
  type: 'gauge',
  help: 'Bytes of objects that nothing refers to.',
};
const ORPHANS_CHECKED: Metric = {
  name: 'holdfast_orphans_checked_timestamp_seconds',
  type: 'gauge',
  help: 'When the orphaned bytes were counted.',
};
const RUN_STATE: Metric = {
  name: 'holdfast_run_state',
  type: 'gauge',
  help: '1 for the present state of the run, 0 for the others.',
};
const CHECKPOINTS: Metric = {
  name: 'holdfast_checkpoints',
  type: 'gauge',
  help: 'Checkpoints of the catalog by state.',
};

/** The runs with metrics of their own: the first by URI. The others are only counted. */
export function measuredRuns(
  places: readonly Pick<PlaceReport, 'runs'>[],
  runsMax: number,
): { readonly runs: readonly RunSummary[]; readonly omittedCount: number } {
  const all = new Map(places.flatMap(({ runs }) => runs).map((run) => [run.uri, run]));
  const runs = [...all.values()].sort((a, b) => (a.uri < b.uri ? -1 : 1)).slice(0, runsMax);
  return { runs, omittedCount: all.size - runs.length };
}

/** The whole page. */
export function* metricsLines(
  places: readonly PlaceReport[],
  { programVersion, runsMax, orphansOf }: MetricsOptions,
): Iterable<string> {
  const { runs, omittedCount } = measuredRuns(places, runsMax);
  for (const metric of RUN_METRICS) {
    const samples = runs.flatMap((run) => sampleOf({ run: run.uri }, metric.read(run)));
    yield* metricLines(metric, samples);
  }
  yield* metricLines(
    CHECKPOINTS,
    runs.flatMap((run) => [
      ...sampleOf({ run: run.uri, state: 'live' }, run.retainedCount),
      ...sampleOf({ run: run.uri, state: 'retiring' }, run.retiringCount),
      ...sampleOf({ run: run.uri, state: 'quarantined' }, run.quarantinedCount),
    ]),
  );
  yield* metricLines(
    RUN_STATE,
    runs.flatMap((run) =>
      STATES.map((state) => ({ labels: { run: run.uri, state }, value: Number(run.state === state) })),
    ),
  );
  const orphans = runs.map(({ uri }) => ({ run: uri, facts: orphansOf?.(uri) }));
  yield* metricLines(
    ORPHANED_BYTES,
    orphans.flatMap(({ run, facts }) => sampleOf({ run }, facts?.orphanedBytes ?? null)),
  );
  yield* metricLines(
    ORPHANS_CHECKED,
    orphans.flatMap(({ run, facts }) => sampleOf({ run }, seconds(facts?.checkedAtMs ?? null))),
  );
  yield* exporterLines(places, omittedCount, programVersion);
}

function* exporterLines(
  places: readonly PlaceReport[],
  omittedCount: number,
  programVersion: string,
): Iterable<string> {
  const ofPlace = (
    name: string,
    type: Metric['type'],
    help: string,
    read: (place: PlaceReport) => number | null,
  ) =>
    metricLines(
      { name: `holdfast_exporter_${name}`, type, help },
      places.flatMap((place) => sampleOf({ place: place.uri }, read(place))),
    );
  yield* ofPlace('runs', 'gauge', 'Runs found below the place.', ({ runs, refreshedAtMs }) =>
    // Before the first search has ended, their number is not known.
    refreshedAtMs === null ? null : runs.filter(isCertainlyRun).length,
  );
  yield* ofPlace('last_refresh_timestamp_seconds', 'gauge', 'End of the last whole search.', (place) =>
    seconds(place.refreshedAtMs),
  );
  yield* ofPlace('refresh_duration_seconds', 'gauge', 'Duration of the last search.', (place) =>
    seconds(place.refreshDurationMs),
  );
  yield* ofPlace(
    'refresh_failures_total',
    'counter',
    'Searches that failed as a whole.',
    (place) => place.failureCount,
  );
  yield* metricLines(
    {
      name: 'holdfast_exporter_runs_omitted',
      type: 'gauge',
      help: 'Runs beyond the limit, without metrics.',
    },
    [{ labels: {}, value: omittedCount }],
  );
  yield* metricLines({ name: 'holdfast_build_info', type: 'gauge', help: 'Version of the exporter.' }, [
    { labels: { version: programVersion }, value: 1 },
  ]);
}

function sampleOf(labels: Labels, value: number | null): Sample[] {
  return value === null || !Number.isFinite(value) ? [] : [{ labels, value }];
}

/** Without a sample there is no metric. */
function* metricLines({ name, type, help }: Metric, samples: readonly Sample[]): Iterable<string> {
  if (samples.length === 0) return;
  yield `# HELP ${name} ${help}`;
  yield `# TYPE ${name} ${type}`;
  for (const { labels, value } of samples) yield `${name}${labelsText(labels)} ${value}`;
}

function labelsText(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

function escaped(text: string): string {
  return text.replace(/["\\\n]/g, (sign) => (sign === '\n' ? '\\n' : `\\${sign}`));
}
