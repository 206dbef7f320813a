import { basename, dirname } from 'node:path';
import { isCheckpointError } from '@holdfast/core/contract';
import type { ShardFile, ShardSet } from '@holdfast/elasticdl';
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
import { isFile, localPath, withPlace, withShards } from '../elasticdl/open-shards.ts';
import { numbering } from '../elasticdl/options.ts';
import { type JsonObject, JsonRows, type JsonValue, jsonVersion, toJson } from '../json.ts';
import { isUri, takeUriFirst } from '../operands.ts';

/** Of an object, that tells a file from a prefix. */
const SHARD_NAME = /\.ch?kpt([?#]|$)/;

/** Each waits for a store a few times; a checkpoint has few files. */
const FILES_AT_ONCE = 16;

export const elasticdlInspect: Command = {
  name: 'elasticdl inspect',
  group: 'ElasticDL',
  summary: 'Show what a checkpoint of ElasticDL holds, without reading its values',
  description:
    'FILE is one shard. DIR is a version as ElasticDL writes it, or the directory that holds versions.\n' +
    'URI is a run, or such a directory or file in a store. What is there decides.\n' +
    'Of several versions the newest whole one is shown. Every form that ElasticDL ever wrote is read.',
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
  const path = localPath(from);
  const isOneFile = path === null ? SHARD_NAME.test(from) : await isFile(path);
  return isOneFile
    ? inspectOneFile(call, path ?? from)
    : withShards(call, from, { isPatient: false }, (set) => inspect(call, set));
}

/** `from`: a path, or the URI of an object. */
async function inspectOneFile(call: Call, from: string): Promise<CommandResult> {
  const [directory, name] = isUri(from) ? splitUri(from) : [dirname(from), basename(from)];
  return withPlace(call, directory, async (place) => {
    const source = await place.open(name, call.signal);
    try {
      return await inspect(call, {
        where: place.where(name),
        version: null,
        shards: [{ name, source, path: place.where(name) }],
      });
    } finally {
      await source.close();
    }
  });
}

/** The settings after a `?` are the store's. */
function splitUri(uri: string): [directory: string, name: string] {
  const [, directory = uri, name = '', settings = ''] = /^(.*)\/([^/?#]*)([?#].*)?$/.exec(uri) ?? [];
  return [directory + settings, name];
}

/** A set, or one file of it. */
interface Shards {
  readonly where: string;
  readonly version: bigint | null;
  readonly writers?: ShardSet['writers'];
  readonly shards: readonly Pick<ShardFile, 'name' | 'source' | 'path'>[];
}

async function inspect(call: Call, { where, version, writers = [], shards }: Shards): Promise<CommandResult> {
  const files = await readAll(call, shards);
  const { mergeLayouts } = await import('@holdfast/elasticdl');
  const found = { where, version, writers, shards: files.map(summarizeShard) };
  try {
    return describe(call, { ...found, model: summarizeModel(mergeLayouts(files), files.length) });
  } catch (error) {
    if (!isCheckpointError(error, 'Corrupt')) throw error;
    return { ...describe(call, { ...found, model: null }), error };
  }
}

async function readAll(call: Call, shards: Shards['shards']): Promise<readonly InspectedFile[]> {
  const { readShardLayout } = await import('@holdfast/elasticdl');
  const { signal } = call;
  const read = async ({ name, source, path = name }: Shards['shards'][number]) => {
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

function jsonOf({ where, version, writers, shards, model }: Inspected): JsonObject {
  return {
    where,
    version: version === null ? null : jsonVersion(version),
    writers: jsonWriters({ writers }),
    shards: toJson(shards),
    modelVersion: model?.version ?? null,
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
