import {
  anyText,
  checkSome,
  optional,
  type RestoreTarget,
  type Rules,
  wholeNumber,
} from '@holdfast/core/contract';
import type { WrittenForm } from '../layout.ts';
import { type ShardExtension, shardFile } from '../open/names.ts';
import type { ReadingOptions } from '../reading-options.ts';
import { READING } from '../reading-options.ts';
import { aForm, anExtension, aSet, aTarget, SHARD_COUNT_MAX } from '../rules.ts';
import type { ShardSet } from '../shard-set.ts';
import { FileSink } from './file-sink.ts';
import { assertShardIndex } from './restore-shard.ts';
import { scatterModel } from './scatter-model.ts';

export interface RepartitionOptions extends ReadingOptions {
  /** Number of the new shards, 1 to 65,536. */
  readonly count: number;
  /** Writes only this one of the new shards, from 0 to `count - 1`. Default: all. */
  readonly index?: number | undefined;
  /** Default `S7`, the form of ElasticDL's last release. */
  readonly form?: WrittenForm | undefined;
  /** Prefix of each file's name, such as `version-100/`. Default: empty. */
  readonly prefix?: string | undefined;
  /** Default `ckpt`. */
  readonly extension?: ShardExtension | undefined;
}

export interface RepartitionResult {
  /** Version of the model. */
  readonly version: number;
  /** By index; only the one shard if `index` was given. */
  readonly files: readonly { readonly name: string; readonly sizeBytes: number }[];
}

const OPTIONS: Rules<RepartitionOptions> = {
  ...READING,
  count: wholeNumber(1, SHARD_COUNT_MAX),
  index: optional(wholeNumber(0)),
  form: optional(aForm),
  prefix: optional(anyText),
  extension: optional(anExtension),
};

/**
 * Reshards a checkpoint to `count` shards, in one pass, into files that ElasticDL reads. They
 * appear all together or not at all: the target is published once every source is verified, and
 * otherwise discarded. Errors as `scatterModel`. Also `InvalidArgument` if the form cannot hold the
 * model, or `index` is out of range.
 */
export async function repartition(
  set: ShardSet,
  target: RestoreTarget,
  options: RepartitionOptions,
): Promise<RepartitionResult> {
  aSet('set', set);
  aTarget('target', target);
  try {
    checkSome(options, OPTIONS);
  } catch (error) {
    await target.discard();
    throw error;
  }
  const { count, index: only, form = 'S7', prefix = '', extension = 'ckpt' } = options;
  const files: { name: string; sink: FileSink }[] = [];
  const openSink = (index: number) => {
    if (only !== undefined && index !== only) return null;
    const name = `${prefix}${shardFile(index, count, extension)}`;
    const sink = new FileSink(target, name, form);
    files.push({ name, sink });
    return sink;
  };
  try {
    if (only !== undefined) assertShardIndex(only, count);
    const { version } = await scatterModel(set, { ...options, openSink });
    await target.publish();
    return { version, files: files.map(({ name, sink }) => ({ name, sizeBytes: sink.sizeBytes })) };
  } catch (error) {
    await target.discard();
    throw error;
  }
}
