import type { Call, Command, CommandResult } from '../command.ts';
import { checkpoint, givenText, jsonGiven, label, requiredCheckpoint } from '../common-options.ts';
import { printable } from '../format.ts';
import { expectingRun, withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';

const LABEL_DEFAULT = 'pinned';

export const pin: Command = {
  name: 'pin',
  group: 'Keep tidy',
  summary: 'Keep a version until it is unpinned, whatever the rules say',
  description: 'A version may have several labels. It is kept while it has any.',
  operands: 'URI --version V',
  options: [checkpoint, { ...label, help: `the reason, such as paper; default: ${LABEL_DEFAULT}` }],
  examples: ['holdfast pin "file://$PWD/run" --version 1200 --label paper'],
  isSilentWhenQuiet: true,
  isOneDecision: true,
  run: runPin,
};

async function runPin(call: Call): Promise<CommandResult> {
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  const given = requiredCheckpoint(call);
  const name = call.get(label) ?? LABEL_DEFAULT;
  await withRun(call, { uri }, (manager) =>
    expectingRun(call, manager, () => manager.admin.pin(given, name, { signal: call.signal })),
  );
  return {
    text: `${call.style('green', 'pinned')}  version ${givenText(given)}   ${printable(name)}`,
    json: { uri: call.subject.uri ?? null, ...jsonGiven(given), label: name },
  };
}
