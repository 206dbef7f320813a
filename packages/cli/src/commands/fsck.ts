import { CheckpointError, type FsckResult, type RebuildResult } from '@holdfast/core/contract';
import type { Call, Command, CommandResult } from '../command.ts';
import { confirm, requirePerson } from '../confirm.ts';
import { formatPlural, printable } from '../format.ts';
import { fsckText, rebuildText } from '../fsck-text.ts';
import { jsonId, jsonSummary, toJson } from '../json.ts';
import { withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';
import { flag, list, value } from '../option.ts';
import { usageError } from '../usage-error.ts';
import { watchElapsed } from '../watch-elapsed.ts';

const rebuild = flag(
  '--rebuild-catalog',
  'write a new catalog from the manifests, where the catalog itself is gone',
);
const skip = list(
  '--skip <key>',
  'with --rebuild-catalog: leave this manifest out if it cannot be read; may be repeated',
  (text) => text,
);
const release = value(
  '--release <key>',
  'no longer hold what a manifest that was skipped may refer to',
  (text) => text,
);
const apply = flag('--apply', 'with --rebuild-catalog or --release: do it without asking');

const REBUILD_OTHERWISE = 'pass --apply to do it; stop every process that writes to this run first';
const RELEASE_OTHERWISE = 'pass --apply to do it';

export const fsck: Command = {
  name: 'fsck',
  group: 'Keep tidy',
  summary: 'Compare the catalog with the objects, both ways, without reading a payload',
  description:
    'Exit status 5 when something is missing or damaged. Changes nothing, but for --rebuild-catalog:\n' +
    'every version that is there with all its files is then in a new catalog, unverified. A manifest that\n' +
    'cannot be read stops that; --skip leaves it out, and gc then keeps what it may refer to until --release.\n' +
    'Both ask first on a terminal; elsewhere they need --apply.',
  operands: 'URI',
  options: [rebuild, skip, release, apply],
  examples: ['holdfast fsck "file://$PWD/run"', 'holdfast fsck "file://$PWD/run" --json'],
  run: runFsck,
};

async function runFsck(call: Call): Promise<CommandResult> {
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  const released = call.get(release);
  if (call.get(rebuild) === true) {
    if (released === undefined) return rebuildCatalog(call, uri);
    throw usageError('--release does not go with --rebuild-catalog', ['rebuild first, then release']);
  }
  if (call.sourced(skip)?.source === '--skip')
    throw usageError('--skip goes with --rebuild-catalog', ['fsck by itself changes nothing']);
  if (released !== undefined) return releaseSkipped(call, uri, released);
  if (call.sourced(apply)?.source === '--apply')
    throw usageError('--apply goes with --rebuild-catalog or --release', ['fsck by itself changes nothing']);
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
        `a new catalog for ${call.subject.uri}: every version counts as unverified; nothing else may write there`,
      );
      for (const key of skipped)
        call.messages.warn(
          `${printable(key)} is left out if it cannot be read: its version is then lost to readers`,
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
        `what only ${printable(key)} refers to is garbage then: the next collection deletes it`,
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
