import type { Call, Command, CommandResult } from '../command.ts';
import { checkpoint, givenText, meta, metric, requiredCheckpoint } from '../common-options.ts';
import { formatMetric, printable } from '../format.ts';
import { jsonId, jsonVersion } from '../json.ts';
import { expectingRun, withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';
import { checked } from '../option.ts';
import { usageError } from '../usage-error.ts';
import { pairsToRecord } from '../values.ts';

export const annotate: Command = {
  name: 'annotate',
  group: 'Save and restore',
  summary: 'Record metrics and metadata of a committed version, such as those of an evaluation',
  description:
    'A name that is recorded again gets the new value; other names keep theirs. The files do not change.\n' +
    'Rules such as --keep-best, `list`, `elasticdl best` and mirrors use the new values from then on.',
  operands: 'URI --version V --metric NAME=NUMBER',
  options: [checkpoint, metric, meta],
  examples: [
    'holdfast annotate "file://$PWD/run" --version 1200 --metric auc=0.91',
    'holdfast annotate "file://$PWD/run" --version 1200 --metric auc=0.91 --meta evaluated-on=test-2026',
  ],
  isSilentWhenQuiet: true,
  isOneDecision: true,
  run: runAnnotate,
};

async function runAnnotate(call: Call): Promise<CommandResult> {
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  const given = requiredCheckpoint(call);
  const metrics = checked('InvalidArgument', '--metric', () => pairsToRecord(call.get(metric) ?? []));
  const metadata = checked('InvalidArgument', '--meta', () => pairsToRecord(call.get(meta) ?? []));
  if (Object.keys(metrics).length + Object.keys(metadata).length === 0) {
    throw usageError('annotate needs --metric or --meta', [
      `usage: holdfast annotate ${call.command.operands} [options]`,
    ]);
  }
  const { signal } = call;
  const id = await withRun(call, { uri }, (manager) =>
    expectingRun(call, manager, () => manager.admin.annotate(given, { metrics, metadata, signal })),
  );
  const said = [
    ...Object.entries(metrics).map(([name, value]) => `${printable(name)} ${formatMetric(value)}`),
    ...Object.entries(metadata).map(([name, text]) => `${printable(name)}=${printable(text)}`),
  ];
  return {
    text: `${call.style('green', 'annotated')}  version ${givenText(given)}   ${said.join('   ')}`,
    json: {
      ...{ uri: call.subject.uri ?? null, version: jsonVersion(id.version), id: jsonId(id) },
      ...{ metrics, metadata },
    },
  };
}
