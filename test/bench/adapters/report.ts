/** Turns runs of adapters into published tables, verdicts and charts. */

import { markdownTable, ratios, type Verdict, verdictTable } from '../results.ts';
import { barChart } from '../s3/chart.ts';
import { gist } from '../s3/report.ts';
import { GIB, sizeText } from '../s3/shapes.ts';
import { spread, summarize } from '../statistics.ts';
import { ACTIONS, type Action, type Adapter, type Client, clientsOf, RAW_RATIO_MAX } from './adapters.ts';
import type { AdapterFailure, AdapterRun } from './series.ts';

export interface AdapterReport {
  /** Machine, versions and options in one line. */
  readonly conditions: string;
  readonly adapters: readonly Adapter[];
  readonly sizes: readonly number[];
  readonly runs: readonly AdapterRun[];
  readonly failures: readonly AdapterFailure[];
}

interface Place {
  readonly adapter: Adapter;
  readonly sizeBytes: number;
}

function places({ adapters, sizes }: AdapterReport): Place[] {
  return adapters.flatMap((adapter) => sizes.map((sizeBytes) => ({ adapter, sizeBytes })));
}

/** In the order of their rounds. */
function runsOf({ runs }: AdapterReport, { adapter, sizeBytes }: Place, action: Action, client: Client) {
  return runs.filter(
    (run) =>
      run.adapter === adapter.name &&
      run.sizeBytes === sizeBytes &&
      run.action === action &&
      run.client === client,
  );
}

/** CPU seconds of the client per GiB. */
function cpuOf({ callCpuMs, sizeBytes }: AdapterRun): number {
  return callCpuMs / 1000 / (sizeBytes / GIB);
}

/** Verdicts for all comparisons in which both clients have runs. */
export function verdictsOf(report: AdapterReport): Verdict[] {
  return places(report).flatMap((place) =>
    ACTIONS.flatMap((action) => {
      const { adapter, sizeBytes } = place;
      const cpu = (client: Client) => runsOf(report, place, action, client).map(cpuOf);
      const [ours, raw, sdk] = [cpu('holdfast'), cpu('node:http'), cpu('SDK')];
      const what = `${adapter.name}, ${action} of ${sizeText(sizeBytes)}, client CPU`;
      const { call = '', costsAtLeast } = adapter.sdk[action] ?? {};
      const wanted = costsAtLeast === undefined ? undefined : { atLeast: costsAtLeast };
      const verdicts: Verdict[] = [
        {
          what: `${what}: Holdfast / node:http + CRC32C`,
          values: ratios(ours, raw),
          wanted: { atMost: RAW_RATIO_MAX },
        },
        { what: `${what}: ${call} / Holdfast`, values: ratios(sdk, ours), wanted },
      ];
      return verdicts.filter(({ values }) => values.length > 0);
    }),
  );
}

function clientTitle({ sdk }: Adapter, action: Action, client: Client): string {
  if (client === 'holdfast') return '**holdfast**';
  return client === 'SDK' ? (sdk[action]?.call ?? client) : 'node:http + CRC32C';
}

function tableOf(report: AdapterReport, place: Place): string {
  const head = [
    'what',
    'client',
    'wall s',
    'client CPU s/GiB',
    'server CPU s/GiB',
    'connections',
    'requests',
  ];
  const rows = ACTIONS.flatMap((action) =>
    clientsOf(place.adapter, action).flatMap((client) => {
      const runs = runsOf(report, place, action, client);
      if (runs.length === 0) return [];
      const of = (value: (run: AdapterRun) => number, digits: number) => spread(runs.map(value), digits);
      return [
        [
          action,
          clientTitle(place.adapter, action, client),
          of((run) => run.callMs / 1000, 2),
          of(cpuOf, 2),
          of((run) => run.serverCpuMs / 1000 / (run.sizeBytes / GIB), 2),
          of((run) => run.connections, 0),
          of((run) => run.requests, 0),
        ],
      ];
    }),
  );
  return markdownTable(head, rows);
}

export function chartName({ adapter, sizeBytes }: Place): string {
  return `adapters-${adapter.name}-${sizeText(sizeBytes)}.svg`;
}

export function markdownOf(report: AdapterReport): string {
  const sections = places(report).flatMap((place) => {
    const title = `${place.adapter.name}, ${sizeText(place.sizeBytes)}, discarding server`;
    return [
      `### ${title}`,
      `![${title}: wall time and client CPU](${chartName(place)})`,
      tableOf(report, place),
    ];
  });
  const failures = report.failures.map(
    ({ adapter, client, message }) => `- ${adapter}, ${client}: ${gist(message)}`,
  );
  const failed = failures.length > 0 ? [`Failed, and left out:\n\n${failures.join('\n')}`] : [];
  return `${[report.conditions, verdictTable(verdictsOf(report)), ...sections, ...failed].join('\n\n')}\n`;
}

/** Charts by file name: wall time beside client CPU, with one row of panels for each action. */
export function chartsOf(report: AdapterReport): Record<string, string> {
  return Object.fromEntries(places(report).map((place) => [chartName(place), chartOf(report, place)]));
}

function chartOf(report: AdapterReport, place: Place): string {
  const rows = ACTIONS.filter((action) => runsOf(report, place, action, 'holdfast').length > 0).map(
    (action) => {
      const bars = (value: (run: AdapterRun) => number) =>
        clientsOf(place.adapter, action)
          .map((client) => ({ client, runs: runsOf(report, place, action, client) }))
          .filter(({ runs }) => runs.length > 0)
          .map(({ client, runs }) => ({
            label: client,
            ...summarize(runs.map(value)),
            isOurs: client === 'holdfast',
          }));
      return [
        { title: `${action}: wall time, s`, bars: bars((run) => run.callMs / 1000) },
        { title: `${action}: client CPU, s/GiB`, bars: bars(cpuOf) },
      ];
    },
  );
  return barChart({
    title: `${place.adapter.name}, ${sizeText(place.sizeBytes)}, discarding server`,
    note: 'median and range; shorter is better',
    rows,
  });
}
