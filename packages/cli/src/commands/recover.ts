import type { RecoveredOutcome } from '@holdfast/core/contract';
import type { Call, Command, CommandResult } from '../command.ts';
import { printable, shellQuote } from '../format.ts';
import { jsonId, jsonVersion } from '../json.ts';
import { withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';

const TRY_AGAIN_EXIT_CODE = 75;

const EXIT_CODES: Readonly<Record<RecoveredOutcome, number>> = {
  committed: 0,
  'not-committed': 0,
  pending: TRY_AGAIN_EXIT_CODE,
  unknown: TRY_AGAIN_EXIT_CODE,
};

const IN_WORDS: Readonly<Record<RecoveredOutcome, string>> = {
  committed: 'committed',
  'not-committed': 'not committed, and never will be',
  pending: 'not committed yet, but it may be',
  unknown: 'cannot be known any more',
};

export const recover: Command = {
  name: 'recover',
  group: 'Trust',
  summary: 'Tell what became of a save or commit that ended in OutcomeUnknown',
  description:
    'TOKEN stands in the message of that error. Changes nothing.\n' +
    'Exit status 0 when the outcome is settled, committed or not: --json tells which; 75 when it is not.',
  operands: 'URI TOKEN',
  options: [],
  examples: [
    'holdfast recover "file://$PWD/run" "$TOKEN"',
    'holdfast recover "file://$PWD/run" "$TOKEN" --json',
  ],
  run: runRecover,
};

async function runRecover(call: Call): Promise<CommandResult> {
  const { uri, rest } = takeUriFirst(call.command, call.operands, call.env, ['TOKEN']);
  const token = rest[0] as string;
  const result = await withRun(call, { uri }, (manager) => manager.recover(token, { signal: call.signal }));
  const head = `version ${result.id.version}: ${IN_WORDS[result.outcome]}`;
  const next =
    result.outcome === 'pending'
      ? [
          `  \`holdfast commit ${shellQuote(call.subject.uri as string)} --version ${result.id.version}\` settles it`,
        ]
      : [];
  return {
    text: [head, `  ${printable(result.detail)}`, ...next].join('\n'),
    json: {
      uri: call.subject.uri ?? null,
      outcome: result.outcome,
      version: jsonVersion(result.id.version),
      id: jsonId(result.id),
      detail: result.detail,
    },
    exitCode: EXIT_CODES[result.outcome],
  };
}
