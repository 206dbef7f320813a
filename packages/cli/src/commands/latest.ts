import type { Call, Command, CommandResult } from '../command.ts';
import { jsonSummary } from '../json.ts';
import { nothingToLoad, requireRun, withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';

export const latest: Command = {
  name: 'latest',
  group: 'Look',
  summary: 'Print the version a restart would load, and nothing else',
  description:
    'Exit status 6: there is nothing to load. That may be a first start, or all versions are quarantined,\n' +
    'retired or left behind, as the message says. `holdfast resume --or-start-fresh` tells these apart.',
  operands: 'URI',
  options: [],
  examples: [
    'holdfast latest "file://$PWD/run"',
    'step=$(holdfast latest "file://$PWD/run" --quiet) && echo "the next start loads $step"',
  ],
  run: runLatest,
};

async function runLatest(call: Call): Promise<CommandResult> {
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  const summary = await withRun(call, { uri }, async (manager) => {
    const checkpoint = await manager.latest(call);
    if (checkpoint?.summary) return checkpoint.summary;
    const shown = call.subject.uri as string;
    await requireRun(manager, shown, call);
    throw await nothingToLoad(manager, shown, call);
  });
  return { text: String(summary.version), json: { uri: call.subject.uri ?? null, ...jsonSummary(summary) } };
}
