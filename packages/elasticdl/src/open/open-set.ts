import {
  atATime,
  CheckpointError,
  type RandomSource,
  throwIfAborted,
  type WriterState,
} from '@holdfast/core/contract';
import { allEnded } from '../scatter/at-once.ts';
import type { ShardFile, ShardSet } from '../shard-set.ts';
import { findShards } from './find-shards.ts';
import type { ShardName } from './names.ts';

/** Location of shards, and how to open them. */
export interface ShardPlace {
  /** See `ShardSet`. */
  readonly where: string;
  readonly version: bigint | null;
  readonly writers?: readonly WriterState[] | undefined;
  readonly openOther?: ShardSet['openOther'];
  /** Names of all files there, shards or not. */
  readonly names: Iterable<string>;
  open(name: string): Promise<RandomSource>;
  /** Only for a directory of this machine. */
  pathOf?(name: string): string | undefined;
}

/** Each open waits for a disk or a server; a checkpoint has few files. */
const OPENED_AT_A_TIME = 16;

/**
 * The shards of a place. `NotFound`: there are none. `Corrupt`: they are not a whole checkpoint;
 * the message says which are there and which are missing.
 */
export function wholeShards({ where, names }: Pick<ShardPlace, 'where' | 'names'>): readonly ShardName[] {
  const { shards, problem } = findShards(names);
  if (problem === null) return shards;
  throw new CheckpointError(shards.length === 0 ? 'NotFound' : 'Corrupt', `${where} ${problem}`);
}

/** Opens all shards. After an error, none is left open. */
export async function openSet(place: ShardPlace, signal: AbortSignal | undefined): Promise<ShardSet> {
  const shards = wholeShards(place);
  const opened: ShardFile[] = [];
  const openOne = async (shard: ShardName) => {
    throwIfAborted(signal);
    const source = await place.open(shard.name);
    opened.push({ ...shard, source, path: place.pathOf?.(shard.name) });
  };
  try {
    await atATime(shards, OPENED_AT_A_TIME, openOne);
  } catch (error) {
    await closeAll(opened).catch(() => undefined); // throw the error of the open, not this one
    throw error;
  }
  return setOf(
    place,
    opened.sort((a, b) => a.index - b.index),
  );
}

/** A set of sources that are already open: all shards, by index. */
export function setOf(
  { where, version, writers, openOther }: Pick<ShardSet, 'where' | 'version' | 'writers' | 'openOther'>,
  shards: readonly ShardFile[],
): ShardSet {
  let closing: Promise<void> | undefined;
  const close = () => {
    closing ??= closeAll(shards);
    return closing;
  };
  return { where, version, writers, openOther, shards, close, [Symbol.asyncDispose]: close };
}

function closeAll(shards: readonly ShardFile[]): Promise<void> {
  return allEnded(shards.map(({ source }) => source.close()));
}
