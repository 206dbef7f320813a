import type { CheckpointSummary } from '@holdfast/core/contract';
import type { RankedMetric } from '@holdfast/elasticdl';
import type { Call, Command, CommandResult } from '../command.ts';
import { parseRankedMetric } from '../elasticdl/option-values.ts';
import { formatAge, formatMetric, printable } from '../format.ts';
import { jsonSummary, jsonVersion } from '../json.ts';
import { nothingToLoad, requireRun, withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';
import { value } from '../option.ts';
import { type Column, renderTable } from '../table.ts';
import { usageError } from '../usage-error.ts';

/** The best, the second and the third. */
const SHOWN_MAX = 3;

const metric = value(
  '--metric <name[:max|:min]>',
  'the metric to compare; max (the default): the highest is best',
  parseRankedMetric,
);

export const elasticdlBest: Command = {
  name: 'elasticdl best',
  group: 'ElasticDL',
  summary: 'Show which checkpoint of a run is best by a metric',
  description:
    'It considers checkpoints that a restart could load and that have the metric. If two are equal, the newer wins.\n' +
    'Exit status 6: the run has no checkpoint; 2: no checkpoint has the metric.',
  operands: 'URI --metric NAME',
  options: [metric],
  examples: [
    'holdfast elasticdl best "file://$PWD/run" --metric auc',
    'holdfast elasticdl best "file://$PWD/run" --metric loss:min --json',
  ],
  run: runBest,
};

async function runBest(call: Call): Promise<CommandResult> {
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  const by = call.get(metric);
  if (by === undefined) {
    throw usageError(`${call.command.name} needs --metric`, [
      `usage: holdfast ${call.command.name} ${call.command.operands} [options]`,
    ]);
  }
  const ranked = await withRun(call, { uri }, async (manager) => {
    const { rankCheckpoints } = await import('@holdfast/elasticdl');
    const found = await rankCheckpoints(manager, by, call);
    const shown = call.subject.uri as string;
    if (found.length > 0) return found;
    await requireRun(manager, shown, call);
    throw await nothingToLoad(manager, shown, call);
  });
  return describe(ranked, by, call);
}

function figureOf({ metrics }: CheckpointSummary, name: string): number {
  return metrics[name] as number;
}

function describe(ranked: readonly CheckpointSummary[], by: RankedMetric, call: Call): CommandResult {
  const [best, ...others] = ranked.slice(0, SHOWN_MAX) as [CheckpointSummary, ...CheckpointSummary[]];
  return {
    text: textOf([best, ...others], by, call),
    json: {
      uri: call.subject.uri ?? null,
      metric: by.metric,
      mode: by.mode,
      value: figureOf(best, by.metric),
      ...jsonSummary(best),
      others: others.map((each) => ({
        version: jsonVersion(each.version),
        value: figureOf(each, by.metric),
      })),
    },
  };
}

function textOf(shown: readonly CheckpointSummary[], by: RankedMetric, call: Call): string {
  const nowMs = call.clock.nowMs();
  const untitled: Column = { title: '', align: 'left' };
  const rows = shown.map((each, index) => [
    index === 0 ? 'best' : 'then',
    `version ${each.version}`,
    `${printable(by.metric)} ${formatMetric(figureOf(each, by.metric))}`,
    formatAge(each.committedAtMs, nowMs),
  ]);
  const [, first = '', ...others] = renderTable([untitled, untitled, untitled, untitled], rows);
  return [`${call.style('green', 'best')}${first.slice('best'.length)}`, ...others].join('\n');
}
