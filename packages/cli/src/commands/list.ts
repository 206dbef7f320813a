import type { CheckpointSummary } from '@holdfast/core/contract';
import { bestMetrics } from '../best-metrics.ts';
import type { Call, Command, CommandResult } from '../command.ts';
import { jsonSummary } from '../json.ts';
import { listText } from '../list-text.ts';
import { listRun, withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';
import { value } from '../option.ts';
import { parseWhole } from '../values.ts';

const NONE: ReturnType<typeof bestMetrics> = new Map();

const limit = value('--limit <n>', 'only the newest N; default: all', parseWhole(1, 1_000_000_000));

export const list: Command = {
  name: 'list',
  group: 'Look',
  summary: 'List the checkpoints of a run, newest first',
  description:
    'SIZE is the size of the version; STORED is what was sent for it, if that is less.\n' +
    'The best by a metric is marked only if all versions are listed.',
  operands: 'URI',
  options: [limit],
  examples: ['holdfast list "file://$PWD/run" --limit 20', 'holdfast list "file://$PWD/run" --json'],
  run: runList,
};

async function runList(call: Call): Promise<CommandResult> {
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  const shownMax = call.get(limit);
  // One more than is shown, to find out whether there are more.
  const atMost = shownMax === undefined ? undefined : shownMax + 1;
  const found = await withRun(call, { uri }, (manager) =>
    listRun(manager, call.subject.uri as string, { signal: call.signal, limit: atMost }),
  );
  const summaries = found.slice(0, shownMax);
  // The best of a run is known only if the whole list was read.
  const best = summaries.length === found.length ? bestMetrics(summaries) : NONE;
  const total = (of: (each: CheckpointSummary) => number) =>
    summaries.reduce((sum, each) => sum + of(each), 0);
  return {
    text: listText(summaries, {
      best,
      nowMs: call.clock.nowMs(),
      style: call.style,
    }),
    json: {
      uri: call.subject.uri ?? null,
      checkpoints: summaries.map(jsonSummary),
      sizeBytes: total((each) => each.sizeBytes),
      storedBytes: total((each) => each.storedBytes),
    },
  };
}
