import { CheckpointError, type FsckResult, type RebuildResult } from '@holdfast/core/contract';
import type { Call, Command, CommandResult } from '../command.ts';
import { confirm, requirePerson } from '../confirm.ts';
import { formatPlural, printable } from '../format.ts';
import { fsckText, rebuildText } from '../fsck-text.ts';
import { jsonId, jsonSummary, toJson } from '../json.ts';
import { withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';
import { flag, value, valueList } from '../option.ts';
import { usageError } from '../usage-error.ts';
import { watchElapsed } from '../watch-elapsed.ts';

const rebuild = flag('--rebuild-catalog', 'write a new catalog from the manifests, if the catalog is lost');
const skip = valueList(
  '--skip <key>',
  'with --rebuild-catalog: skip this manifest if it cannot be read; may be repeated',
  (text) => text,
);
const release = value(
  '--release <key>',
  'stop keeping the objects that a skipped manifest may refer to',
  (text) => text,
);
const apply = flag('--apply', 'with --rebuild-catalog or --release: do it without asking');

const REBUILD_OTHERWISE = 'pass --apply to do it; stop every process that writes to this run first';
const RELEASE_OTHERWISE = 'pass --apply to do it';

export const fsck: Command = {
  name: 'fsck',
  group: 'Keep tidy',
  summary: 'Compare the catalog with the objects, in both directions, without reading payloads',
  description:
    'Exit status 5: something is missing or damaged. It changes nothing without --rebuild-catalog or --release.\n' +
    '--rebuild-catalog writes a new catalog with every version whose files are all there, unverified. A manifest that ' +
    'cannot be read stops the rebuild; --skip skips it, and gc keeps the objects it may refer to until --release.\n' +
    'Both options ask first on a terminal, and need --apply elsewhere.',
  operands: 'URI',
  options: [rebuild, skip, release, apply],
  examples: ['holdfast fsck "file://$PWD/run"', 'holdfast fsck "file://$PWD/run" --json'],
  isOneDecision: true,
  run: runFsck,
};

async function runFsck(call: Call): Promise<CommandResult> {
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  const released = call.get(release);
  if (call.get(rebuild) === true) {
    if (released === undefined) return rebuildCatalog(call, uri);
    throw usageError('--release cannot be combined with --rebuild-catalog', ['rebuild first, then release']);
  }
  if (call.sourced(skip)?.source === '--skip')
    throw usageError('--skip needs --rebuild-catalog', ['fsck by itself changes nothing']);
  if (released !== undefined) return releaseSkipped(call, uri, released);
  if (call.sourced(apply)?.source === '--apply')
    throw usageError('--apply needs --rebuild-catalog or --release', ['fsck by itself changes nothing']);
  const result = await withRun(call, { uri, isPatient: true }, async (manager) => {
    await watchElapsed(call, 'looking');
    return manager.admin.fsck({ signal: call.signal });
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
    skippedManifests: result.skippedManifests,
    problems: result.problems.map(({ id, ...rest }) => ({ ...rest, id: id === null ? null : jsonId(id) })),
  };
  if (result.isSound) return { text, json };
  const found = `${formatPlural(wrong.length, 'finding')} of what is missing or damaged`;
  return { text, json, error: new CheckpointError('Corrupt', `the run at ${uri} is not sound: ${found}`) };
}

async function rebuildCatalog(call: Call, uri: string): Promise<CommandResult> {
  const ask = call.get(apply) === true ? null : requirePerson(call, REBUILD_OTHERWISE);
  const skipped = call.get(skip) ?? [];
  const result = await withRun(call, { uri, isPatient: true }, async (manager) => {
    if (ask !== null) {
      call.messages.warn(
        `a new catalog for ${call.subject.uri}: every version counts as unverified; no other process may write there`,
      );
      for (const key of skipped)
        call.messages.warn(
          `${printable(key)} is skipped if it cannot be read: its version is then lost to readers`,
        );
      await confirm(ask, 'write it?', call.signal);
    }
    return manager.admin.rebuildCatalog({ skip: skipped, signal: call.signal });
  });
  return describeRebuild(result, call);
}

async function releaseSkipped(call: Call, uri: string, key: string): Promise<CommandResult> {
  const ask = call.get(apply) === true ? null : requirePerson(call, RELEASE_OTHERWISE);
  await withRun(call, { uri, isPatient: true }, async (manager) => {
    if (ask !== null) {
      call.messages.warn(
        `objects to which only ${printable(key)} refers become garbage: the next collection deletes them`,
      );
      await confirm(ask, 'release it?', call.signal);
    }
    await manager.admin.releaseSkipped(key, { signal: call.signal });
  });
  const subject = call.subject.uri as string;
  return {
    text: `${call.style('green', 'released')}  ${printable(key)}`,
    json: { uri: subject, released: key },
  };
}

function describeRebuild(result: RebuildResult, call: Call): CommandResult {
  return {
    text: rebuildText(result, { uri: call.subject.uri as string, style: call.style }),
    json: {
      uri: call.subject.uri ?? null,
      runId: result.runId,
      formerRunId: result.formerRunId,
      checkpoints: result.checkpoints.map(jsonSummary),
      skipped: toJson(result.skipped),
    },
  };
}
