import type { CheckpointSummary } from '@holdfast/core/contract';
import { bestMetrics } from '../best-metrics.ts';
import type { Call, Command, CommandResult } from '../command.ts';
import { formatAge, formatBytes, formatCount, formatMetrics, formatPlural } from '../format.ts';
import { jsonSummary } from '../json.ts';
import { listRun, withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';
import { stateText } from '../state-text.ts';
import { renderTable } from '../table.ts';

export const list: Command = {
  name: 'list',
  group: 'Look',
  summary: 'List the checkpoints of a run, newest first',
  operands: 'URI',
  options: [],
  examples: ['holdfast list "file://$PWD/run"', 'holdfast list "file://$PWD/run" --json'],
  run: runList,
};

async function runList(call: Call): Promise<CommandResult> {
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  const summaries = await withRun(call, { uri, closesOnInterrupt: true }, (manager) =>
    listRun(manager, call.subject.uri as string),
  );
  const sizeBytes = summaries.reduce((sum, each) => sum + each.sizeBytes, 0);
  return {
    text: textOf(summaries, sizeBytes, call),
    json: { uri: call.subject.uri ?? null, checkpoints: summaries.map(jsonSummary), sizeBytes },
  };
}

function textOf(summaries: readonly CheckpointSummary[], sizeBytes: number, call: Call): string {
  if (summaries.length === 0) return 'no checkpoint yet';
  const nowMs = call.clock.nowMs();
  const best = bestMetrics(summaries);
  const [titles, ...rows] = renderTable(
    [
      { title: 'VERSION', align: 'right' },
      { title: 'COMMITTED', align: 'left' },
      { title: 'FILES', align: 'right' },
      { title: 'SIZE', align: 'right' },
      { title: 'METRICS', align: 'left' },
      { title: 'STATE', align: 'left' },
    ],
    summaries.map((each) => [
      String(each.version),
      formatAge(each.committedAtMs, nowMs),
      formatCount(each.fileCount),
      formatBytes(each.sizeBytes),
      formatMetrics(each.metrics),
      stateText(each, best),
    ]),
  );
  return [
    call.style('bold', titles as string),
    ...rows,
    `${formatPlural(summaries.length, 'version')} · ${formatBytes(sizeBytes)}`,
  ].join('\n');
}
