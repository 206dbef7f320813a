import { type ForkResult, isCheckpointError } from '@holdfast/core/contract';
import type { Call, Command, CommandResult } from '../command.ts';
import { buffer, concurrency, limitRate, workers } from '../common-options.ts';
import { formatBytes, formatPlural } from '../format.ts';
import { jsonId, jsonVersion } from '../json.ts';
import { withRun } from '../open-run.ts';
import { takeOperands } from '../operands.ts';
import { checked } from '../option.ts';
import { elapsedAndRate } from '../outcome.ts';
import { parseVersion } from '../values.ts';

export const fork: Command = {
  name: 'fork',
  group: 'Keep tidy',
  summary: 'Begin a run at URI2 with one version of the run at URI, every byte verified',
  description:
    'Without @V it takes the latest. Digits after the last @ are the version: if a URI itself ends in @ and digits, ' +
    'append the version too. URI2 must be new, or a run without checkpoints. The run at URI does not change.',
  operands: 'URI@V URI2',
  options: [concurrency, workers, buffer, limitRate],
  examples: [
    'holdfast fork "file://$PWD/run@1200" "file://$PWD/other-learning-rate"',
    'holdfast fork "file://$PWD/run" "file://$PWD/fine-tuning"',
  ],
  isSilentWhenQuiet: true,
  isOneDecision: true,
  run: runFork,
};

async function runFork(call: Call): Promise<CommandResult> {
  const [first = '', to = ''] = takeOperands(call.command, call.operands, ['URI@V', 'URI2']);
  const { uri, version } = splitVersion(first);
  if (version !== undefined) call.subject.version = version;
  const { signal } = call;
  const { onProgress } = call.reporter;
  const beganMs = call.clock.monotonicMs();
  return withRun(call, { uri, isPatient: true }, async (source) => {
    const from = call.subject.uri as string;
    return withRun(call, { uri: to, isPatient: true }, async (target) => {
      const ends = { from, to: call.subject.uri as string };
      await call.reporter.begin({
        verb: 'copied',
        headline: (event) =>
          event.type === 'planned'
            ? `version ${event.version} of ${from} → ${ends.to}   ${formatPlural(event.fileCount, 'file')}   ${formatBytes(event.sizeBytes)}`
            : null,
      });
      try {
        const result = await target.admin.forkFrom(source, { version, signal, onProgress });
        return describe(result, ends, call, call.clock.monotonicMs() - beganMs);
      } catch (error) {
        // So that the advice names the right run.
        const isOfSource =
          isCheckpointError(error) && ('state' in error.context || error.code === 'NotFound');
        if (isOfSource) call.subject.uri = from;
        throw error;
      }
    });
  });
}

/** Splits `URI@V`. The URI may contain an @ itself. */
export function splitVersion(operand: string): { uri: string; version: bigint | undefined } {
  const match = /^(.*)@(\d+)$/s.exec(operand);
  if (match === null) return { uri: operand, version: undefined };
  const version = checked('InvalidArgument', 'URI@V', () => parseVersion(match[2] as string));
  return { uri: match[1] as string, version };
}

function describe(
  result: ForkResult,
  ends: { readonly from: string; readonly to: string },
  call: Call,
  durationMs: number,
): CommandResult {
  const { version, sizeBytes, fileCount, reusedBytes } = result;
  const text = [
    `${call.style('green', 'forked')}  version ${version} → ${ends.to}`,
    `${formatBytes(sizeBytes)} in ${formatPlural(fileCount, 'file')}`,
    ...elapsedAndRate(durationMs, sizeBytes),
    ...(reusedBytes > 0 ? [`${formatBytes(reusedBytes)} already sent`] : []),
  ];
  return {
    text: text.join('   '),
    json: {
      ...ends,
      version: jsonVersion(version),
      fromId: jsonId(result.from),
      id: jsonId(result.id),
      sizeBytes,
      fileCount,
      reusedBytes,
      durationMs: Math.round(durationMs),
    },
  };
}
