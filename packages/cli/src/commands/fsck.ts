import { CheckpointError, type FsckResult, type RebuildResult } from '@holdfast/core/contract';
import type { Call, Command, CommandResult } from '../command.ts';
import { confirm, requirePerson } from '../confirm.ts';
import { formatPlural } from '../format.ts';
import { fsckText, rebuildText } from '../fsck-text.ts';
import { jsonId, jsonSummary, toJson } from '../json.ts';
import { withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';
import { flag } from '../option.ts';
import { usageError } from '../usage-error.ts';
import { watchElapsed } from '../watch-elapsed.ts';

const rebuild = flag(
  '--rebuild-catalog',
  'write a new catalog from the manifests, where the catalog itself is gone',
);
const apply = flag('--apply', 'with --rebuild-catalog: do it without asking');

const OTHERWISE = 'pass --apply to do it; stop every process that writes to this run first';

export const fsck: Command = {
  name: 'fsck',
  group: 'Keep tidy',
  summary: 'Compare the catalog with the objects, both ways, without reading a payload',
  description:
    'Exit status 5 when something is missing or damaged. Changes nothing, but for --rebuild-catalog:\n' +
    'every version that is there with all its files is then in a new catalog, unverified. On a terminal\n' +
    'that asks first; elsewhere it needs --apply.',
  operands: 'URI',
  options: [rebuild, apply],
  examples: ['holdfast fsck "file://$PWD/run"', 'holdfast fsck "file://$PWD/run" --json'],
  run: runFsck,
};

async function runFsck(call: Call): Promise<CommandResult> {
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  if (call.get(rebuild) === true) return rebuildCatalog(call, uri);
  if (call.sourced(apply)?.source === '--apply')
    throw usageError('--apply goes with --rebuild-catalog', ['fsck by itself changes nothing']);
  const result = await withRun(call, { uri, isPatient: true }, async (manager) => {
    await watchElapsed(call, 'looking');
    return manager.fsck({ signal: call.signal });
  });
  return describe(result, call);
}

function describe(result: FsckResult, call: Call): CommandResult {
  const uri = call.subject.uri as string;
  const wrong = result.problems.filter(({ kind }) => kind === 'missing' || kind === 'damaged');
  const text = fsckText(result, { uri, style: call.style });
  const json = {
    uri,
    checkpointCount: result.checkpointCount,
    objectCount: result.objectCount,
    totalBytes: result.totalBytes,
    isSound: result.isSound,
    problems: result.problems.map(({ id, ...rest }) => ({ ...rest, id: id === null ? null : jsonId(id) })),
  };
  if (result.isSound) return { text, json };
  const found = `${formatPlural(wrong.length, 'finding')} of what is missing or damaged`;
  return { text, json, error: new CheckpointError('Corrupt', `the run at ${uri} is not sound: ${found}`) };
}

async function rebuildCatalog(call: Call, uri: string): Promise<CommandResult> {
  const ask = call.get(apply) === true ? null : requirePerson(call, OTHERWISE);
  const result = await withRun(call, { uri, isPatient: true }, async (manager) => {
    if (ask !== null) {
      call.messages.warn(
        `a new catalog for ${call.subject.uri}: every version counts as unverified; nothing else may write there`,
      );
      await confirm(ask, 'write it?', call.signal);
    }
    return manager.rebuildCatalog({ signal: call.signal });
  });
  return describeRebuild(result, call);
}

function describeRebuild(result: RebuildResult, call: Call): CommandResult {
  return {
    text: rebuildText(result, { uri: call.subject.uri as string, style: call.style }),
    json: {
      uri: call.subject.uri ?? null,
      runId: result.runId,
      checkpoints: result.checkpoints.map(jsonSummary),
      skipped: toJson(result.skipped),
    },
  };
}
