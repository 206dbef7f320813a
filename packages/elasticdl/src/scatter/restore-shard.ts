import { CheckpointError, checkSome, wholeNumber } from '@holdfast/core/contract';
import type { ModelShard } from '../model.ts';
import type { ReadingOptions } from '../reading-options.ts';
import { READING } from '../reading-options.ts';
import { SHARD_COUNT_MAX } from '../rules.ts';
import type { ShardSet } from '../shard-set.ts';
import { MemorySink } from './memory-sink.ts';
import { scatterModel } from './scatter-model.ts';

export interface RestoreShardOptions extends ReadingOptions {
  /** Index of the parameter server, from 0. */
  readonly index: number;
  /** Number of parameter servers; independent of their number when the model was saved. */
  readonly count: number;
}

/**
 * Loads the share of one of `count` parameter servers into memory; with a `count` of 1, the whole
 * model. `tables` has every table of the model, without rows if none belongs here, so that every
 * server has every table. Rows of other servers are read too if that is cheaper than skipping them.
 * Needs the memory of the shard besides `bufferBytes`. Errors as `scatterModel`.
 */
export async function restoreShard(set: ShardSet, options: RestoreShardOptions): Promise<ModelShard> {
  checkSome(options, { ...READING, index: wholeNumber(0), count: wholeNumber(1, SHARD_COUNT_MAX) });
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
    `shard ${index} of ${count} was requested; the index is a whole number from 0 to ${count - 1}`,
  );
}
