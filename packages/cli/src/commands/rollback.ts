import type { RollbackResult } from '@holdfast/core/contract';
import type { Call, Command, CommandResult } from '../command.ts';
import { versionOf } from '../common-options.ts';
import { formatPlural, formatVersions } from '../format.ts';
import { jsonId, jsonVersion } from '../json.ts';
import { withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';
import { value } from '../option.ts';
import { usageError } from '../usage-error.ts';
import { parseReference } from '../values.ts';

const to = value('--to <v>', 'the version to go back to', parseReference);
const reason = value('--reason <text>', 'why, for the log', (text) => text);

export const rollback: Command = {
  name: 'rollback',
  group: 'Keep tidy',
  summary: 'Make an older version the latest again; deletes nothing',
  description:
    'Running writers are fenced: they end at their next save. Start them again, and they continue from V.\n' +
    'Versions above V are left behind: no restart loads them, and `list` shows them until retention removes them.',
  operands: 'URI --to V --reason TEXT',
  options: [to, reason],
  examples: ['holdfast rollback "file://$PWD/run" --to 1200 --reason "loss went up after 1200"'],
  isSilentWhenQuiet: true,
  isOneDecision: true,
  run: runRollback,
};

async function runRollback(call: Call): Promise<CommandResult> {
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  const [version, why] = [call.get(to), call.get(reason)];
  const missing = [...(version === undefined ? ['--to'] : []), ...(why === undefined ? ['--reason'] : [])];
  if (version === undefined || why === undefined) {
    throw usageError(`rollback needs ${missing.join(' and ')}`, [
      `usage: holdfast rollback ${call.command.operands} [options]`,
    ]);
  }
  call.subject.version = versionOf(version);
  const result = await withRun(call, { uri }, (manager) =>
    manager.admin.rollback({ to: version, reason: why, signal: call.signal }),
  );
  return {
    text: textOf(result, call),
    json: {
      uri: call.subject.uri ?? null,
      version: jsonVersion(result.version),
      id: jsonId(result.id),
      lineage: result.lineage,
      leftBehind: result.leftBehind.map(jsonVersion),
      reason: why,
    },
  };
}

function textOf({ version, lineage, leftBehind }: RollbackResult, call: Call): string {
  const left =
    leftBehind.length === 0
      ? 'no version is left behind'
      : `${formatPlural(leftBehind.length, 'version')} left behind (${formatVersions(leftBehind)}), until retention removes them`;
  return [
    `${call.style('green', 'rolled back')}  version ${version} is the latest   lineage ${lineage}`,
    `  ${left}`,
    '  writers that were running are fenced; start them again',
  ].join('\n');
}
