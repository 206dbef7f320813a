import { CheckpointError, type CheckpointSummary } from '@holdfast/core/contract';
import type { Call, Command, CommandResult } from '../command.ts';
import { parseRankedMetric, type RankedMetric } from '../elasticdl/option-values.ts';
import { formatAge, formatMetric, printable } from '../format.ts';
import { jsonSummary, jsonVersion } from '../json.ts';
import { emptyRun, listRun, withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';
import { value } from '../option.ts';
import { type Column, renderTable } from '../table.ts';
import { usageError } from '../usage-error.ts';

/** The best, and what came second and third. */
const SHOWN_MAX = 3;

const metric = value(
  '--metric <name[:max|:min]>',
  'the metric that decides; max, the default: the highest is best',
  parseRankedMetric,
);

export const elasticdlBest: Command = {
  name: 'elasticdl best',
  group: 'ElasticDL',
  summary: 'Tell which checkpoint of a run is best by a metric',
  description:
    'Of the checkpoints that a restart could load, those count that were saved with the metric; of equals the newer one is the better.\n' +
    'Exit status 6 when the run has no checkpoint, 2 when none of them has the metric.',
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
  const summaries = await withRun(call, { uri, closesOnInterrupt: true }, (manager) =>
    listRun(manager, call.subject.uri as string),
  );
  const ranked = rank(summaries, by, call.subject.uri as string);
  return describe(ranked, by, call);
}

/** Best first; not empty. `NotFound`: no checkpoint; `InvalidArgument`: none with the metric. */
function rank(
  summaries: readonly CheckpointSummary[],
  { metric: name, mode }: RankedMetric,
  uri: string,
): CheckpointSummary[] {
  const usable = summaries.filter(({ state, isLeftBehind }) => state === 'live' && !isLeftBehind);
  if (usable.length === 0) throw emptyRun(uri);
  const sign = mode === 'max' ? -1 : 1;
  const ranked = usable
    .filter(({ metrics }) => Object.hasOwn(metrics, name))
    .sort((a, b) => sign * (figureOf(a, name) - figureOf(b, name)) || (a.version < b.version ? 1 : -1));
  if (ranked.length > 0) return ranked;
  throw new CheckpointError('InvalidArgument', `no checkpoint in ${uri} has the metric "${name}"`, {
    context: { store: uri, advice: [metricsText(usable)] },
  });
}

function figureOf({ metrics }: CheckpointSummary, name: string): number {
  return metrics[name] as number;
}

function metricsText(summaries: readonly CheckpointSummary[]): string {
  const names = [...new Set(summaries.flatMap(({ metrics }) => Object.keys(metrics)))].sort();
  return names.length === 0
    ? 'none was saved with any metric; `save --metric NAME=NUMBER` gives one'
    : `metrics that there are: ${names.map(printable).join(', ')}`;
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
