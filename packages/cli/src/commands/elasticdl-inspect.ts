import { isCheckpointError } from '@holdfast/core/contract';
import type { ShardSet } from '@holdfast/elasticdl';
import type { Call, Command, CommandResult } from '../command.ts';
import { checkpointOrLatest } from '../common-options.ts';
import { jsonWriters } from '../consistency-text.ts';
import {
  type InspectedFile,
  type ModelSummary,
  summarizeModel,
  summarizeShard,
} from '../elasticdl/model-summary.ts';
import { type Inspected, inspectedText } from '../elasticdl/model-text.ts';
import { fileAt, withFile, withShards } from '../elasticdl/open-shards.ts';
import { numbering } from '../elasticdl/options.ts';
import { type JsonObject, JsonRows, type JsonValue, jsonVersion, toJson } from '../json.ts';
import { takeUriFirst } from '../operands.ts';

/** Each file waits for the store a few times. A checkpoint has few files. */
const FILES_AT_ONCE = 16;

export const elasticdlInspect: Command = {
  name: 'elasticdl inspect',
  group: 'ElasticDL',
  summary: 'Show what a checkpoint of ElasticDL holds, without reading its values',
  description:
    'FILE is one shard, or a complete model such as model_v110.chkpt. DIR is a version as ElasticDL ' +
    'writes it, or a directory that holds versions.\n' +
    'URI is a run, or such a directory or file in a store; the command finds out which.\n' +
    'If there are several versions, it shows the newest complete one. It reads every form that ElasticDL ever wrote.',
  operands: 'FILE|DIR|URI',
  options: [checkpointOrLatest, numbering],
  examples: [
    'holdfast elasticdl inspect ./checkpoint_dir',
    'holdfast elasticdl inspect ./checkpoint_dir/version-100/variables-0-of-2.ckpt --json',
    'holdfast elasticdl inspect "file://$PWD/run" --version 100',
  ],
  run: runInspect,
};

async function runInspect(call: Call): Promise<CommandResult> {
  const { uri: from } = takeUriFirst(call.command, call.operands, call.env);
  const file = await fileAt(from);
  return file === null
    ? withShards(call, from, { isPatient: false }, (set) => inspect(call, set))
    : withFile(call, file, { isPartTaken: true }, (set) => inspect(call, set));
}

async function inspect(call: Call, set: ShardSet): Promise<CommandResult> {
  const { where, version, writers = [], shards } = set;
  const files = await readAll(call, shards);
  const { findSuspicions, mergeLayouts } = await import('@holdfast/elasticdl');
  const found = { where, version, writers, shards: files.map(summarizeShard) };
  const asked = { numbering: call.get(numbering), signal: call.signal };
  try {
    const merged = mergeLayouts(files, version);
    const suspicions = await findSuspicions(set, files, merged, asked);
    return describe(call, { ...found, model: summarizeModel(merged, files.length), suspicions });
  } catch (error) {
    if (!isCheckpointError(error, 'Corrupt')) throw error;
    return { ...describe(call, { ...found, model: null, suspicions: [] }), error };
  }
}

async function readAll(call: Call, shards: ShardSet['shards']): Promise<readonly InspectedFile[]> {
  const { readShardLayout } = await import('@holdfast/elasticdl');
  const { signal } = call;
  const read = async ({ name, source, path = name }: ShardSet['shards'][number]) => {
    const options = { name: path, numbering: call.get(numbering), signal };
    const layout = await readShardLayout(source, options);
    await source.assertUnchanged();
    return { name, sizeBytes: source.sizeBytes, layout };
  };
  const files: InspectedFile[] = [];
  for (let at = 0; at < shards.length; at += FILES_AT_ONCE)
    files.push(...(await Promise.all(shards.slice(at, at + FILES_AT_ONCE).map(read))));
  return files;
}

function describe(call: Call, inspected: Inspected): CommandResult {
  return { text: inspectedText(inspected, call.style), json: jsonOf(inspected) };
}

function jsonOf({ where, version, writers, shards, model, suspicions }: Inspected): JsonObject {
  return {
    where,
    version: version === null ? null : jsonVersion(version),
    writers: jsonWriters({ writers }),
    shards: toJson(shards),
    modelVersion: model?.version ?? null,
    suspicions,
    tables: toJson(model?.tables),
    variables: model === null ? null : new JsonRows(() => jsonVariables(model.variables)),
  };
}

function* jsonVariables(variables: ModelSummary['variables']): Iterable<JsonValue> {
  for (const { file, place } of variables) {
    const { name, dtype, shape, content } = place;
    yield { name, dtype, shape, sizeBytes: content.lengthBytes, file };
  }
}
