import type { Call, Command, CommandResult } from '../command.ts';
import { checkpoint, givenText, jsonGiven, label, requiredCheckpoint } from '../common-options.ts';
import { printable } from '../format.ts';
import { expectingRun, withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';

export const unpin: Command = {
  name: 'unpin',
  group: 'Keep tidy',
  summary: 'Remove a pin of a version: the rules apply to it again',
  operands: 'URI --version V',
  options: [checkpoint, { ...label, help: 'only this label; default: all its labels' }],
  examples: [
    'holdfast unpin "file://$PWD/run" --version 1200 --label paper',
    'holdfast unpin "file://$PWD/run" --version 1200',
  ],
  isSilentWhenQuiet: true,
  isOneDecision: true,
  run: runUnpin,
};

async function runUnpin(call: Call): Promise<CommandResult> {
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  const given = requiredCheckpoint(call);
  const labels = await withRun(call, { uri }, (manager) =>
    expectingRun(call, manager, () => manager.admin.unpin(given, call.get(label), { signal: call.signal })),
  );
  const names = labels.map(printable).join(', ');
  return {
    text: `${call.style('green', 'unpinned')}  version ${givenText(given)}${names === '' ? '   it had no pin' : `   ${names}`}`,
    json: { uri: call.subject.uri ?? null, ...jsonGiven(given), labels },
  };
}
