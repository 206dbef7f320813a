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

/** Outcomes for a version. */
const COMMIT_IN_WORDS: Readonly<Record<RecoveredOutcome, string>> = {
  committed: 'committed',
  'not-committed': 'not committed, and never will be',
  pending: 'not committed yet, but it may be',
  unknown: 'can no longer be known',
};

/** Outcomes for any other decision. */
const DECISION_IN_WORDS: Readonly<Record<RecoveredOutcome, string>> = {
  committed: 'took effect',
  'not-committed': 'did not take effect, and never will',
  pending: 'has not taken effect yet, but may',
  unknown: 'can no longer be known',
};

export const recover: Command = {
  name: 'recover',
  group: 'Trust',
  summary: 'Find out the outcome of a call that ended in OutcomeUnknown',
  description:
    'TOKEN is in the message of that error. The command changes nothing.\n' +
    'Exit status 0: the outcome is settled, committed or not (--json says which); 75: it is not settled.',
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
  const { id, of, outcome } = result;
  const head =
    id === null
      ? `the ${of}: ${DECISION_IN_WORDS[outcome]}`
      : `version ${id.version}: ${COMMIT_IN_WORDS[outcome]}`;
  const uriWord = shellQuote(call.subject.uri as string);
  const next =
    outcome === 'pending' && id !== null && result.isDelivered !== false
      ? [
          `  \`holdfast commit ${uriWord} --version ${id.version}\` settles it once all writers have delivered`,
        ]
      : [];
  return {
    text: [head, `  ${printable(result.detail)}`, ...next].join('\n'),
    json: {
      uri: call.subject.uri ?? null,
      outcome,
      of,
      version: id === null ? null : jsonVersion(id.version),
      id: id === null ? null : jsonId(id),
      isDelivered: result.isDelivered,
      detail: result.detail,
    },
    exitCode: EXIT_CODES[result.outcome],
  };
}
