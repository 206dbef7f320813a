import type { Call, Command, CommandResult } from '../command.ts';
import { checkpoint, givenText, jsonGiven, requiredCheckpoint } from '../common-options.ts';
import { expectingRun, withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';

export const undelete: Command = {
  name: 'undelete',
  group: 'Keep tidy',
  summary: 'Make a retired version live again, unless it was removed',
  description: 'The next collection applies the rules to it again: pin it to keep it.',
  operands: 'URI --version V',
  options: [checkpoint],
  examples: ['holdfast undelete "file://$PWD/run" --version 1200'],
  isSilentWhenQuiet: true,
  isOneDecision: true,
  run: runUndelete,
};

async function runUndelete(call: Call): Promise<CommandResult> {
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  const given = requiredCheckpoint(call);
  await withRun(call, { uri }, (manager) =>
    expectingRun(call, manager, () => manager.admin.undelete(given, { signal: call.signal })),
  );
  return {
    text: `${call.style('green', 'live again')}  version ${givenText(given)}   the rules apply to it again; \`holdfast pin\` keeps it`,
    json: { uri: call.subject.uri ?? null, ...jsonGiven(given) },
  };
}
