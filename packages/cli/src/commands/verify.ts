import { CheckpointError, isCheckpointError, type VerifyResult } from '@holdfast/core/contract';
import { askedOf } from '../ask-once-more.ts';
import type { Call, Command, CommandResult } from '../command.ts';
import {
  buffer,
  checkpointOrLatest,
  concurrency,
  foundText,
  givenVersion,
  workers,
} from '../common-options.ts';
import { formatBytes, formatPlural, printable, shellQuote } from '../format.ts';
import { jsonId, jsonVersion } from '../json.ts';
import { expectingRun, withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';
import { flag, value } from '../option.ts';
import { elapsedAndRate } from '../outcome.ts';
import { parseWhole } from '../values.ts';

const level = value(
  '--level <n>',
  '0: records, sizes and checksums that the store keeps; 1: also samples of each file; 2 (the default): every byte',
  parseWhole(0, 2) as (text: string) => 0 | 1 | 2,
  ['0', '1', '2'],
);

const quarantine = flag(
  '--quarantine',
  'if something is wrong, take the version out of use for good; the latest is then the newest version left',
);
const noRecord = flag('--no-record', 'do not record in the run that every byte was verified');

export const verify: Command = {
  name: 'verify',
  group: 'Trust',
  summary: 'Compare the bytes in the store with the records',
  description:
    'Exit status 5: something is damaged or missing. It changes no object. If every byte of a version verifies, it records ' +
    'that in the run, and gc keeps the newest verified version.',
  operands: 'URI',
  options: [checkpointOrLatest, level, quarantine, noRecord, concurrency, workers, buffer],
  examples: [
    'holdfast verify "file://$PWD/run"',
    'holdfast verify "file://$PWD/run" --version 1200 --level 0',
    'holdfast verify "file://$PWD/run" --quarantine',
  ],
  isSilentWhenQuiet: true,
  isOneDecision: true,
  run: runVerify,
};

async function runVerify(call: Call): Promise<CommandResult> {
  try {
    return await verifyRun(call);
  } catch (error) {
    const quarantined = quarantinedAfterAll(error, call);
    if (quarantined === null) throw error;
    return quarantined;
  }
}

async function verifyRun(call: Call): Promise<CommandResult> {
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  const given = givenVersion(call);
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
      manager.admin.verify({
        ...{ version: given, level: call.get(level), signal, onProgress },
        quarantine: call.get(quarantine) === true,
        record: call.get(noRecord) !== true,
      }),
    );
  });
  return describe(result, call, call.clock.monotonicMs() - beganMs);
}

function describe(result: VerifyResult, call: Call, durationMs: number): CommandResult {
  if (result.note !== '') call.messages.warn(`holdfast: ${printable(result.note)}`);
  const json = {
    uri: call.subject.uri ?? null,
    version: jsonVersion(result.version),
    id: jsonId(result.id),
    level: result.level,
    fileCount: result.fileCount,
    bytesRead: result.bytesRead,
    storedChecksumCount: result.storedChecksumCount,
    problems: result.problems.map(({ name, message }) => ({ name, message })),
    isDoubtful: result.isDoubtful,
    recorded: result.recorded,
    note: result.note,
    latest: result.latest === null ? null : jsonVersion(result.latest),
    durationMs: Math.round(durationMs),
  };
  if (result.problems.length === 0) return { text: soundText(result, call, durationMs), json };
  const label = result.isDoubtful ? call.style('yellow', 'doubtful') : call.style('red', 'damaged');
  const lines = result.problems.map(
    ({ name, message }) => `${label}  ${printable(name)}   ${printable(message)}`,
  );
  return { text: lines.join('\n'), json, error: problemsError(result, call) };
}

function problemsError(result: VerifyResult, call: Call): CheckpointError {
  const version = foundText(call.get(checkpointOrLatest), result.id);
  const count = new Set(result.problems.map((problem) => problem.name)).size;
  const what = `${count} of ${formatPlural(result.fileCount, 'file')} or their records`;
  const context = { version: result.version, advice: adviceOf(result, call) };
  if (!result.isDoubtful) {
    return new CheckpointError('Corrupt', `version ${version} is damaged: ${what} do not match`, { context });
  }
  const message = `it is not known whether version ${version} is damaged: ${what} did not match, and a second check did not find the same`;
  return new CheckpointError('Unavailable', message, { context });
}

/**
 * The result of a call that was stopped while its quarantine was on its way, if the quarantine took
 * effect. The version is damaged, so this is no success.
 */
function quarantinedAfterAll(error: unknown, call: Call): CommandResult | null {
  if (!isCheckpointError(error) || error.context['decision'] !== 'quarantine') return null;
  const asked = askedOf(error);
  const { version, reason } = error.context;
  if (asked?.outcome !== 'committed' || version === undefined) return null;
  const advice = [`version ${version} is quarantined: no restart loads it any more`];
  return {
    text: '',
    json: {
      uri: call.subject.uri ?? null,
      version: jsonVersion(version),
      outcome: asked.outcome,
      recorded: 'quarantined',
      detail: asked.detail,
    },
    error: new CheckpointError(
      'Corrupt',
      `version ${version} is damaged: ${reason}; ${asked.ended}; asked once more`,
      { context: { version, advice } },
    ),
  };
}

function soundText(result: VerifyResult, call: Call, durationMs: number): string {
  const { fileCount, bytesRead } = result;
  const version = foundText(call.get(checkpointOrLatest), result.id);
  return [
    `${call.style('green', 'verified')}  version ${version}   ${formatPlural(fileCount, 'file')}`,
    ...(bytesRead === 0 ? [] : [formatBytes(bytesRead)]),
    ...elapsedAndRate(durationMs, bytesRead),
    comparedText(result),
  ].join('   ');
}

function comparedText({ level, fileCount, storedChecksumCount }: VerifyResult): string {
  if (level === 2) return 'every byte';
  const checksums =
    storedChecksumCount === 0
      ? 'records and sizes; this store keeps no checksums'
      : storedChecksumCount === fileCount
        ? 'records, sizes and stored checksums'
        : `records, sizes and ${storedChecksumCount} stored checksums`;
  return level === 1 ? `samples, ${checksums}` : checksums;
}

/** What happened to the checkpoint, and what to do. */
function adviceOf({ id, isDoubtful, recorded, latest }: VerifyResult, call: Call): string[] {
  const version = foundText(call.get(checkpointOrLatest), id);
  const uri = shellQuote(call.subject.uri as string);
  if (isDoubtful) {
    return [
      `\`holdfast doctor ${uri}\` shows whether this machine gets the bytes that the store keeps`,
      'verify from another machine or over another network before you take the version out of use',
    ];
  }
  if (recorded === 'quarantined') {
    const now =
      latest === null ? 'no version is left to restart from' : `version ${latest} is the latest now`;
    return [`version ${version} is quarantined: no restart will load it; ${now}`];
  }
  return [
    `\`holdfast restore ${uri} DIR --on-corrupt fallback\` takes the newest version whose bytes all verify`,
    `\`holdfast verify ${uri} --version ${version} --quarantine\` takes this one out of use for good`,
  ];
}
