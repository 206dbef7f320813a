import type { Call, Command, CommandResult } from '../command.ts';
import { jsonSummary } from '../json.ts';
import { nothingToLoad, requireRun, withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';

export const latest: Command = {
  name: 'latest',
  group: 'Look',
  summary: 'Print the version a restart would load, and nothing else',
  description:
    'Exit status 6: nothing was ever committed, so a job may start at 0. Every other status except 0 must stop it: ' +
    'with 5 there are checkpoints, but none can be loaded. `holdfast resume --or-start-fresh` does all that.',
  operands: 'URI',
  options: [],
  examples: [
    'holdfast latest "file://$PWD/run"',
    'status=0; step=$(holdfast latest "file://$PWD/run" --quiet) || status=$?; case $status in 0) echo "resume at $step";; 6) echo "start at 0";; *) exit $status;; esac',
  ],
  run: runLatest,
};

async function runLatest(call: Call): Promise<CommandResult> {
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  const summary = await withRun(call, { uri }, async (manager) => {
    const checkpoint = await manager.latest({ signal: call.signal });
    if (checkpoint?.summary) return checkpoint.summary;
    const shown = call.subject.uri as string;
    await requireRun(manager, shown, call);
    throw await nothingToLoad(manager, shown, call);
  });
  return { text: String(summary.version), json: { uri: call.subject.uri ?? null, ...jsonSummary(summary) } };
}
