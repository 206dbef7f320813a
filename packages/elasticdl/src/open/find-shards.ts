/**
 * Checks whether the files of a directory are a whole checkpoint. ElasticDL counts files. Here
 * every shard must exist exactly once, and other files are ignored.
 */

import { parseShardFile, type ShardName } from './names.ts';

export interface FoundShards {
  /** By index; shards with the same index by name. */
  readonly shards: readonly ShardName[];
  /**
   * Why they are not a whole checkpoint, as words that follow the name of the place: "lacks shard 1
   * of 2". `null` if they are.
   */
  readonly problem: string | null;
}

/** Keeps a message one readable line. */
const NAMED_MAX = 10;

export function findShards(names: Iterable<string>): FoundShards {
  const shards = [...names]
    .map((name) => parseShardFile(name))
    .filter((shard) => shard !== null)
    .sort((a, b) => a.index - b.index || (a.name < b.name ? -1 : 1));
  return { shards, problem: problemOf(shards) };
}

function problemOf(shards: readonly ShardName[]): string | null {
  const [first] = shards;
  if (first === undefined) return 'holds no shard of ElasticDL (variables-i-of-n.ckpt)';
  const { count } = first;
  const other = shards.find((shard) => shard.count !== count);
  if (other) return `holds shards of more than one checkpoint: ${first.name} and ${other.name}`;
  const outside = shards.find(({ index }) => index >= count);
  if (outside) return `holds ${outside.name}, but of ${count} shards the last is ${count - 1}`;
  const again = shards.find(({ index }, at) => shards[at + 1]?.index === index);
  if (again) {
    const names = shards.filter(({ index }) => index === again.index).map(({ name }) => name);
    return `holds shard ${again.index} of ${count} more than once: ${names.join(', ')}`;
  }
  return shards.length < count ? missingShards(shards, count) : null;
}

/**
 * `count` comes from a file name and may be huge, so the loop stops after `NAMED_MAX` missing
 * shards.
 */
function missingShards(shards: readonly ShardName[], count: number): string {
  const present = new Set(shards.map(({ index }) => index));
  const missing: number[] = [];
  for (let index = 0; missing.length < NAMED_MAX && index < count; index++)
    if (!present.has(index)) missing.push(index);
  const lacking = count - shards.length;
  const more = lacking > missing.length ? ` and ${lacking - missing.length} more` : '';
  const seen = [...present].slice(0, NAMED_MAX).join(', ');
  const seenMore = present.size > NAMED_MAX ? ' …' : '';
  return `lacks shard ${missing.join(', ')}${more} of ${count}; it has ${seen}${seenMore}`;
}
