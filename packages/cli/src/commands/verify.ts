import { CheckpointError, type VerifyResult } from '@holdfast/core/contract';
import type { Call, Command, CommandResult } from '../command.ts';
import { buffer, concurrency, versionOrLatest } from '../common-options.ts';
import { formatBytes, formatPlural, printable } from '../format.ts';
import { jsonId, jsonVersion } from '../json.ts';
import { expectingRun, withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';
import { value } from '../option.ts';
import { elapsedAndRate } from '../outcome.ts';
import { parseWhole } from '../values.ts';

const level = value(
  '--level <n>',
  '0: records and sizes; 1: the first and last part of each file too; 2 (the default): every byte',
  parseWhole(0, 2) as (text: string) => 0 | 1 | 2,
  ['0', '1', '2'],
);

const WHAT_WAS_COMPARED = [
  'records and sizes',
  'records, sizes, first and last parts',
  'every byte',
] as const;

export const verify: Command = {
  name: 'verify',
  group: 'Trust',
  summary: 'Compare the bytes in the store with the records; changes nothing',
  description: 'Exit status 5 when something is damaged or missing.',
  operands: 'URI',
  options: [versionOrLatest, level, concurrency, buffer],
  examples: [
    'holdfast verify "file://$PWD/run"',
    'holdfast verify "file://$PWD/run" --version 1200 --level 0',
  ],
  isSilentWhenQuiet: true,
  run: runVerify,
};

async function runVerify(call: Call): Promise<CommandResult> {
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  const given = call.get(versionOrLatest);
  if (typeof given === 'bigint') call.subject.version = given;
  const beganMs = call.clock.monotonicMs();
  const result = await withRun(call, { uri }, async (manager) => {
    await call.reporter.begin({
      verb: 'verified',
      headline: (event) =>
        event.type === 'planned'
          ? `version ${event.version} of ${call.subject.uri}   ${formatPlural(event.fileCount, 'file')}   ${formatBytes(event.sizeBytes)}`
          : null,
    });
    const { signal } = call;
    const { onProgress } = call.reporter;
    return expectingRun(call, manager, () =>
      manager.verify({ version: given, level: call.get(level), signal, onProgress }),
    );
  });
  return describe(result, call, call.clock.monotonicMs() - beganMs);
}

function describe(result: VerifyResult, call: Call, durationMs: number): CommandResult {
  const json = {
    uri: call.subject.uri ?? null,
    version: jsonVersion(result.version),
    id: jsonId(result.id),
    level: result.level,
    fileCount: result.fileCount,
    bytesRead: result.bytesRead,
    problems: result.problems.map(({ name, message }) => ({ name, message })),
    durationMs: Math.round(durationMs),
  };
  if (result.problems.length === 0) {
    const head = `${call.style('green', 'verified')}  version ${result.version}   ${formatPlural(result.fileCount, 'file')}`;
    const read = result.bytesRead === 0 ? [] : [formatBytes(result.bytesRead)];
    const parts = [
      head,
      ...read,
      ...elapsedAndRate(durationMs, result.bytesRead),
      WHAT_WAS_COMPARED[result.level],
    ];
    return { text: parts.join('   '), json };
  }
  const damaged = new Set(result.problems.map((problem) => problem.name)).size;
  return {
    text: result.problems
      .map(
        ({ name, message }) => `${call.style('red', 'damaged')}  ${printable(name)}   ${printable(message)}`,
      )
      .join('\n'),
    json,
    error: new CheckpointError(
      'Corrupt',
      `version ${result.version} is damaged: ${damaged} of ${formatPlural(result.fileCount, 'file')} do not match`,
      {
        context: { version: result.version },
      },
    ),
  };
}
