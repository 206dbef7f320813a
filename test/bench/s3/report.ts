/** Turns runs into published numbers: rows of a table, as Markdown and as charts. */

import { type Summary, spread, summarize } from '../statistics.ts';
import { barChart, type Panel } from './chart.ts';
import { type Action, type Failure, filesOf, type Run } from './rounds.ts';
import { GIB, MIB, type Shape, totalBytes } from './shapes.ts';

export interface Report {
  /** Server and protocol, such as "MinIO, plain HTTP". */
  readonly title: string;
  /** Machine, versions and options in one line. */
  readonly conditions: string;
  readonly shapes: readonly Shape[];
  readonly runs: readonly Run[];
  readonly failures: readonly Failure[];
  readonly checksums: Readonly<Record<string, { up: string; down: string }>>;
}

const OURS = 'holdfast';

/** Runs of one peer in one table. */
interface Row {
  readonly peer: string;
  readonly runs: readonly Run[];
  readonly wallS: Summary;
}

/** The unit of costs: per GiB for large files, per file for small ones. */
interface Unit {
  readonly name: string;
  readonly perRun: (ms: number) => number;
}

function unitOf(shape: Shape): Unit {
  if (shape.fileBytes < MIB) return { name: 'ms/file', perRun: (ms) => ms / shape.fileCount };
  return { name: 's/GiB', perRun: (ms) => ms / 1000 / (totalBytes(shape) / GIB) };
}

/** Fastest first. */
function rowsOf({ runs }: Report, shape: Shape, action: Action): Row[] {
  const wanted = runs.filter((run) => run.shape === shape.name && run.action === action);
  return [...new Set(wanted.map((run) => run.peer))]
    .map((peer) => {
      const own = wanted.filter((run) => run.peer === peer);
      return { peer, runs: own, wallS: summarize(own.map((run) => run.wallMs / 1000)) };
    })
    .sort((a, b) => a.wallS.median - b.wallS.median);
}

function actionsOf({ runs }: Report, shape: Shape): Action[] {
  return [...new Set(runs.filter((run) => run.shape === shape.name).map((run) => run.action))];
}

function cpuMsOf(run: Run): number {
  return run.userMs + run.systemMs;
}

function present(values: readonly (number | null)[]): number[] {
  return values.filter((value) => value !== null);
}

/** The most informative line of a long message. */
export function gist(message: string): string {
  const lines = message.split('\n').map((line) => line.trim());
  return lines.findLast((line) => /error|fail|cannot|not found/i.test(line)) ?? lines[0] ?? '';
}

interface Column {
  readonly title: string;
  readonly cell: (row: Row) => string;
  /** The column is omitted if this is false for all rows. */
  readonly isThere?: (row: Row) => boolean;
}

function columnsOf(report: Report, shape: Shape, action: Action): Column[] {
  const { name, perRun } = unitOf(filesOf(shape, action));
  const of = (values: (run: Run) => number | null, digits: number) => (row: Row) =>
    spread(present(row.runs.map(values)), digits);
  const has = (value: (run: Run) => unknown) => (row: Row) => row.runs.some((run) => value(run) !== null);
  const direction = action === 'upload' ? 'up' : 'down';
  return [
    { title: 'client', cell: ({ peer }) => (peer === OURS ? `**${peer}**` : peer) },
    { title: 'wall s', cell: of((run) => run.wallMs / 1000, 2) },
    { title: 'of it, the call', cell: of((run) => (run.callMs === null ? null : run.callMs / 1000), 2) },
    { title: `client CPU ${name}`, cell: of((run) => perRun(cpuMsOf(run)), 2) },
    {
      title: 'of it, the call',
      cell: of((run) => (run.callCpuMs === null ? null : perRun(run.callCpuMs)), 2),
    },
    { title: 'peak RSS MiB', cell: of((run) => run.peakRssBytes / MIB, 0) },
    {
      title: `server CPU ${name}`,
      cell: of((run) => (run.serverCpuMs === null ? null : perRun(run.serverCpuMs)), 2),
      isThere: has((run) => run.serverCpuMs),
    },
    {
      title: 'connections',
      cell: of((run) => run.connections, 0),
      isThere: has((run) => run.connections),
    },
    { title: 'requests', cell: of((run) => run.requests, 0), isThere: has((run) => run.requests) },
    { title: 'checksum', cell: ({ peer }) => report.checksums[peer]?.[direction] ?? '' },
  ];
}

function tableOf(report: Report, shape: Shape, action: Action): string {
  const rows = rowsOf(report, shape, action);
  const columns = columnsOf(report, shape, action).filter(
    ({ isThere }) => isThere === undefined || rows.some(isThere),
  );
  const lines = [
    columns.map(({ title }) => title),
    columns.map(() => '---'),
    ...rows.map((row) => columns.map(({ cell }) => cell(row))),
  ];
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** `chartPath` returns the path of a shape's chart for links in the document. */
export function markdownOf(report: Report, chartPath: (shape: Shape) => string): string {
  const sections = report.shapes.flatMap((shape) => [
    `### ${shape.name}, ${report.title}`,
    `![${shape.name}, ${report.title}: wall time and client CPU](${chartPath(shape)})`,
    ...actionsOf(report, shape).flatMap((action) => [`**${action}**`, tableOf(report, shape, action)]),
  ]);
  const failures = report.failures.map(
    ({ peer, shape, round, message }) => `- ${peer}, ${shape}, round ${round + 1}: ${gist(message)}`,
  );
  const failed = failures.length > 0 ? [`Failed, and left out:\n\n${failures.join('\n')}`] : [];
  return `${[report.conditions, ...sections, ...failed].join('\n\n')}\n`;
}

/** Wall time beside client CPU, with one row of panels for each action. */
export function chartOf(report: Report, shape: Shape): string {
  const panels = actionsOf(report, shape).map((action): [Panel, Panel] => {
    const { name, perRun } = unitOf(filesOf(shape, action));
    const rows = rowsOf(report, shape, action);
    const panel = (title: string, value: (run: Run) => number): Panel => ({
      title,
      bars: rows.map(({ peer, runs }) => ({
        label: peer,
        ...summarize(runs.map(value)),
        isOurs: peer === OURS,
      })),
    });
    return [
      panel(`${action}: wall time, s`, (run) => run.wallMs / 1000),
      panel(`${action}: client CPU, ${name}`, (run) => perRun(cpuMsOf(run))),
    ];
  });
  return barChart({
    title: `${shape.name}, ${report.title}`,
    note: 'median and range; shorter is better',
    rows: panels,
  });
}
