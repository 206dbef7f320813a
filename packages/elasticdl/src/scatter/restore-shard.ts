import { CheckpointError, checkOptions, wholeNumber } from '@holdfast/core/contract';
import type { ModelShard } from '../model.ts';
import { READING, SHARD_COUNT_MAX } from '../rules.ts';
import type { ShardSet } from '../shard-set.ts';
import { MemorySink } from './memory-sink.ts';
import { type ReadingOptions, scatterModel } from './scatter-model.ts';

export interface RestoreShardOptions extends ReadingOptions {
  /** Of the parameter server, from 0. */
  readonly index: number;
  /** Of parameter servers, whatever their number was when the model was saved. */
  readonly count: number;
}

/**
 * What one of `count` parameter servers is to hold, in memory; of 1, the whole model. Every table of the model is in `tables`, without rows
 * if none belongs here, so that every server has every table. Rows of others are read over where that is cheaper than to leave them
 * out. Takes the memory of the shard besides `bufferBytes`. Otherwise as `scatterModel`.
 */
export async function restoreShard(set: ShardSet, options: RestoreShardOptions): Promise<ModelShard> {
  checkOptions(options, { ...READING, index: wholeNumber(0), count: wholeNumber(1, SHARD_COUNT_MAX) });
  const { index, count } = options;
  assertShardIndex(index, count);
  const sink = new MemorySink();
  await scatterModel(set, { ...options, openSink: (at) => (at === index ? sink : null) });
  return sink.shard;
}

/** `InvalidArgument`: there is no such shard. */
export function assertShardIndex(index: number, count: number): void {
  if (Number.isSafeInteger(index) && index >= 0 && index < count) return;
  throw new CheckpointError(
    'InvalidArgument',
    `shard ${index} of ${count} is asked for; the index is a whole number from 0 to ${count - 1}`,
  );
}
