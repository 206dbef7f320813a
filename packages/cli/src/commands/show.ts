import {
  type CheckpointDetails,
  type CheckpointReference,
  checkpointName,
  isCheckpointError,
  type LogEntry,
  type RunManager,
} from '@holdfast/core/contract';
import type { Call, Command, CommandResult } from '../command.ts';
import { checkpointOrLatest, givenVersion } from '../common-options.ts';
import { consistencyText, jsonWriters, writerLines } from '../consistency-text.ts';
import { formatAge, formatBytes, formatMetric, formatPlural, formatTime, printable } from '../format.ts';
import { lineageLines } from '../graph/lineage-graph.ts';
import { jsonSummary, jsonTime, toJson } from '../json.ts';
import { listRun, nothingToLoad, requireRun, whyNoVersion, withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';
import { flag, value } from '../option.ts';
import { stateText } from '../state-text.ts';
import { renderTable } from '../table.ts';
import { usageError } from '../usage-error.ts';
import { parseWhole } from '../values.ts';
import { jsonEntry } from './log.ts';

const LABEL_WIDTH = 10;

/** The engine's own limit. The catalog keeps fewer. */
const DECISIONS_MAX = 1000;
const GRAPH_LIMIT = 50;
const graph = flag('--graph', 'draw the lineage of the run: versions, attempts, rollbacks');
const limit = value(
  '--limit <n>',
  `with --graph: only the newest N versions; default ${GRAPH_LIMIT}`,
  parseWhole(1, 1_000_000_000),
);

export const show: Command = {
  name: 'show',
  group: 'Look',
  summary: 'Show one checkpoint: its files, who committed it and when, its metadata',
  operands: 'URI',
  description:
    '--graph draws the history of the run instead: versions, attempts that fenced older ones, and rollbacks ' +
    'with what they left behind. It reads each decision that the catalog keeps: some 300 small requests.',
  options: [checkpointOrLatest, graph, limit],
  examples: [
    'holdfast show "file://$PWD/run"',
    'holdfast show "file://$PWD/run" --version 1200 --json',
    'holdfast show "file://$PWD/run" --graph',
  ],
  run: runShow,
};

async function runShow(call: Call): Promise<CommandResult> {
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  if (call.get(graph) === true) return showGraph(call, uri);
  if (call.get(limit) !== undefined)
    throw usageError('--limit needs --graph', ['without it, one version is shown']);
  const given = givenVersion(call) ?? 'latest';
  const { details, entry } = await withRun(call, { uri }, (manager) => read(manager, given, call));
  return { text: textOf(details, entry, call), json: jsonOf(details, entry, call.subject.uri as string) };
}

async function showGraph(call: Call, uri: string): Promise<CommandResult> {
  if (givenVersion(call) !== undefined)
    throw usageError('--graph cannot be combined with --version', ['it shows the whole run']);
  const { signal } = call;
  const shownMax = call.get(limit) ?? GRAPH_LIMIT;
  const lineage = await withRun(call, { uri }, async (manager) => {
    // One more than is shown, to find out whether there are more.
    const found = await listRun(manager, call.subject.uri as string, { signal, limit: shownMax + 1 });
    const entries = await manager.admin.log({ limit: DECISIONS_MAX, signal });
    return { checkpoints: found.slice(0, shownMax), entries, isCut: found.length > shownMax };
  });
  const lines = [...lineageLines(lineage, { nowMs: call.clock.nowMs(), style: call.style })];
  return {
    text: lines.join('\n'),
    json: {
      uri: call.subject.uri ?? null,
      checkpoints: lineage.checkpoints.map(jsonSummary),
      entries: lineage.entries.map(jsonEntry),
    },
  };
}

async function read(manager: RunManager, given: CheckpointReference | 'latest', { subject, signal }: Call) {
  const checkpoint = await (given === 'latest' ? manager.latest({ signal }) : manager.get(given, { signal }));
  if (checkpoint === null) {
    const uri = subject.uri as string;
    await requireRun(manager, uri, { signal });
    if (given === 'latest') throw await nothingToLoad(manager, uri, { signal });
    throw await whyNoVersion(manager, given, uri, { signal });
  }
  const details = await checkpoint.details({ signal });
  return { details, entry: await findCommit(manager, details, signal) };
}

/**
 * Finds the entry that committed it. It names the process and the attempt. `null`: the entry is
 * gone, or an older entry is damaged.
 */
async function findCommit(
  manager: RunManager,
  { id }: CheckpointDetails,
  signal: AbortSignal,
): Promise<LogEntry | null> {
  try {
    const [entry] = await manager.admin.log({ commitOf: id, signal });
    return entry ?? null;
  } catch (error) {
    if (isCheckpointError(error, 'Corrupt')) return null;
    throw error;
  }
}

function textOf(details: CheckpointDetails, entry: LogEntry | null, call: Call): string {
  const by = entry === null ? '' : ` by ${printable(entry.process.host)}, process ${entry.process.pid}`;
  const when = `${formatTime(details.committedAtMs)} (${formatAge(details.committedAtMs, call.clock.nowMs())})${by}`;
  const consistency = consistencyText(details);
  const rows: [string, string][] = [
    [
      'version',
      [checkpointName(details.id, details.isLeftBehind), stateText(details, new Map())]
        .filter((part) => part !== '')
        .join('   '),
    ],
    ['run', printable(call.subject.uri as string)],
    ['committed', when],
    ['writers', `${details.worldSize}   lineage ${details.id.lineage} · epoch ${details.id.epoch}`],
    ...(consistency === null ? [] : [['consistency', consistency] as [string, string]]),
    ...(entry === null || entry.attempt === ''
      ? []
      : [['attempt', printable(entry.attempt)] as [string, string]]),
    ['size', `${formatBytes(details.sizeBytes)} in ${countText(details)}`],
    ...Object.entries(details.metrics).map(([name, metric]): [string, string] => [
      'metric',
      `${printable(name)} ${formatMetric(metric)}`,
    ]),
    ...Object.entries(details.metadata).map(([name, text]): [string, string] => [
      'metadata',
      `${printable(name)}=${printable(text)}`,
    ]),
    ['manifest', printable(details.manifestKey)],
  ];
  const width = Math.max(LABEL_WIDTH, ...rows.map(([name]) => name.length));
  const facts = rows.map(([name, text]) => `${call.style('dim', name.padEnd(width))} ${text}`);
  const [writerTitles, ...writers] = writerLines(details);
  const states = writerTitles === undefined ? [] : ['', call.style('bold', writerTitles), ...writers];
  const rowsOfFiles = details.files.map((file) => [
    printable(file.name),
    formatBytes(file.sizeBytes),
    String(file.writer),
    crcText(file.crc32c),
    printable(file.key),
  ]);
  const rowsOfDirectories = details.directories.map((name) => [`${printable(name)}/`, '', '', '', '']);
  const [titles, ...files] = renderTable(
    [
      { title: 'FILE', align: 'left' },
      { title: 'SIZE', align: 'right' },
      { title: 'WRITER', align: 'right' },
      { title: 'CRC32C', align: 'left' },
      { title: 'KEY', align: 'left' },
    ],
    [...rowsOfFiles, ...rowsOfDirectories],
  );
  return [...facts, ...states, '', call.style('bold', titles as string), ...files].join('\n');
}

function countText({ fileCount, directories }: CheckpointDetails): string {
  const files = formatPlural(fileCount, 'file');
  if (directories.length === 0) return files;
  const what = directories.length === 1 ? '1 empty directory' : `${directories.length} empty directories`;
  return `${files} and ${what}`;
}

function crcText(crc32c: number): string {
  return crc32c.toString(16).padStart(8, '0');
}

function jsonOf(details: CheckpointDetails, entry: LogEntry | null, uri: string): CommandResult['json'] {
  return {
    uri,
    ...jsonSummary(details),
    worldSize: details.worldSize,
    writers: jsonWriters(details),
    metadata: details.metadata,
    manifestKey: details.manifestKey,
    attempt: entry?.attempt ?? null,
    process: entry === null ? null : toJson(entry.process),
    files: details.files.map(({ name, sizeBytes, crc32c, writer, key, mtimeMs }) => ({
      name,
      sizeBytes,
      crc32c: crcText(crc32c),
      writer,
      key,
      modifiedAt: jsonTime(mtimeMs ?? 0),
    })),
    directories: details.directories,
  };
}
