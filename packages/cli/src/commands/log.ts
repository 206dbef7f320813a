import { checkpointName, type LogEntry } from '@holdfast/core/contract';
import type { Call, Command, CommandResult } from '../command.ts';
import { formatAge, formatPlural, formatVersions, printable } from '../format.ts';
import { jsonId, jsonTime, toJson } from '../json.ts';
import { requireRun, withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';
import { value } from '../option.ts';
import { renderTable } from '../table.ts';
import { parseWhole } from '../values.ts';

const LIMIT_DEFAULT = 50;
/** The engine's own limit. */
const LIMIT_MAX = 1000;
const limit = value(
  '--limit <n>',
  `how many decisions, newest first; default ${LIMIT_DEFAULT}`,
  parseWhole(1, LIMIT_MAX),
);

export const log: Command = {
  name: 'log',
  group: 'Look',
  summary: 'Show the decisions on a run: takeovers, commits, deletions, with who and why',
  description: 'It goes back as far as the catalog keeps its entries: at least 64.',
  operands: 'URI',
  options: [limit],
  examples: ['holdfast log "file://$PWD/run"', 'holdfast log "file://$PWD/run" --limit 5 --json'],
  run: runLog,
};

async function runLog(call: Call): Promise<CommandResult> {
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  const entries = await withRun(call, { uri }, async (manager) => {
    const found = await manager.admin.log({ limit: call.get(limit) ?? LIMIT_DEFAULT, signal: call.signal });
    if (found.length === 0) await requireRun(manager, call.subject.uri as string, call);
    return found;
  });
  return {
    text: textOf(entries, call),
    json: { uri: call.subject.uri ?? null, entries: entries.map(jsonEntry) },
  };
}

function textOf(entries: readonly LogEntry[], call: Call): string {
  const nowMs = call.clock.nowMs();
  const [titles, ...rows] = renderTable(
    [
      { title: 'SEQ', align: 'right' },
      { title: 'WHEN', align: 'left' },
      { title: 'WHAT', align: 'left' },
      { title: 'VERSION', align: 'left' },
      { title: 'EPOCH', align: 'right' },
      { title: 'ATTEMPT', align: 'left' },
      { title: 'BY', align: 'left' },
      { title: 'WHY', align: 'left' },
    ],
    entries.map((entry) => [
      String(entry.seq),
      formatAge(entry.atMs, nowMs),
      printable(entry.kind),
      versionsText(entry.checkpoints, entry.lineage),
      entry.lineage <= 1 ? String(entry.epoch) : `${entry.lineage}.${entry.epoch}`,
      shorten(printable(entry.attempt)),
      `${printable(entry.process.host)}:${entry.process.pid}`,
      printable(entry.reason),
    ]),
  );
  return [call.style('bold', titles as string), ...rows].join('\n');
}

/**
 * Collection affects hundreds at once: show their number, and as many as fit. Versions of another
 * lineage than the decision's show theirs.
 */
export function versionsText(ids: LogEntry['checkpoints'], lineage: number): string {
  const ascending = ids.toSorted((a, b) => (a.version < b.version ? -1 : 1));
  const names = ascending.map((id) => checkpointName(id, id.lineage !== lineage));
  if (names.length < 2) return names.join('');
  return `${formatPlural(names.length, 'version')}: ${formatVersions(names)}`;
}

// A random attempt id is 128 bits of hex: its beginning identifies it.
function shorten(attempt: string): string {
  return attempt.startsWith('drawn-') ? `${attempt.slice(0, 'drawn-'.length + 8)}…` : attempt;
}

export function jsonEntry(entry: LogEntry) {
  return {
    seq: entry.seq,
    at: jsonTime(entry.atMs),
    kind: entry.kind,
    checkpoints: entry.checkpoints.map(jsonId),
    lineage: entry.lineage,
    epoch: entry.epoch,
    attempt: entry.attempt,
    process: toJson(entry.process),
    reason: entry.reason,
  };
}
