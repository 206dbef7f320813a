/** When a trainer has finished writing a checkpoint. No trainer says so in the same way. */

import { constants, type FileHandle, open, readlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { errnoOf, fileError } from '@holdfast/local-files';
import type { Pattern } from './pattern.ts';
import type { Rule } from './rule.ts';
import { type Entry, factsOf, isSameTree, type Tree } from './tree.ts';

/** Files that name the newest checkpoint: of DeepSpeed, of Megatron and of verl. */
const TRACKERS = ['latest', 'latest_checkpointed_iteration.txt'];

const TRACKER_BYTES_MAX = 4096;

interface Seen {
  readonly tree: Tree;
  readonly sinceMs: number;
}

export class Completeness {
  readonly #rule: Rule;
  readonly #pattern: Pattern;
  readonly #nowMs: () => number;
  /** By path. */
  readonly #seen = new Map<string, Seen>();
  readonly #tracked = new Set<bigint>();

  /** `nowMs`: a monotonic clock. */
  constructor(rule: Rule, pattern: Pattern, nowMs: () => number) {
    this.#rule = rule;
    this.#pattern = pattern;
    this.#nowMs = nowMs;
  }

  async isComplete(entry: Entry, tree: Tree): Promise<boolean> {
    const rule = this.#rule;
    if (tree.size === 0) return false;
    if (rule.kind === 'rename') return true;
    if (rule.kind === 'metadata') return hasMetadata(tree);
    if (rule.kind === 'hf') return hasAllOfTrainer(entry, tree, rule.rankCount);
    if (rule.kind === 'tracker' && !(await this.#isTracked(entry))) return false;
    return this.#isQuiet(entry, tree, rule.quietMs);
  }

  /** Forgets an entry that is saved or gone. */
  forget({ path }: Entry): void {
    this.#seen.delete(path);
  }

  #isQuiet({ path }: Entry, tree: Tree, quietMs: number): boolean {
    const before = this.#seen.get(path);
    const sinceMs = before && isSameTree(before.tree, tree) ? before.sinceMs : this.#nowMs();
    this.#seen.set(path, { tree, sinceMs });
    return this.#nowMs() - sinceMs >= quietMs;
  }

  /**
   * A later one may be named although this one was never finished: its trainer was killed, and went
   * on from an earlier one. So it must have been named itself, at this look or before.
   */
  async #isTracked({ path, version }: Entry): Promise<boolean> {
    for (const name of TRACKERS) {
      const text = await namedBy(join(dirname(path), name));
      const tracked = text === null ? null : this.#versionOf(text);
      if (tracked !== null) this.#tracked.add(tracked);
    }
    return this.#tracked.has(version);
  }

  #versionOf(text: string): bigint | null {
    return /^\d{1,18}$/.test(text) ? BigInt(text) : this.#pattern.versionIn(text);
  }
}

/**
 * PyTorch's DCP writes `.metadata` last, into the directory of each of its checkpoints. A younger
 * shard is of a later save into the same directory, which is under way or was killed.
 */
function hasMetadata(tree: Tree): boolean {
  const metadata = new Map(
    [...tree]
      .filter(([name]) => /(^|\/)\.metadata$/.test(name))
      .map(([name, state]) => [directoryOf(name), factsOf(state)]),
  );
  const shards = [...tree].filter(([name]) => /(^|\/)__[^/]*\.distcp$/.test(name));
  return (
    metadata.size > 0 &&
    [...metadata.values()].every(({ sizeBytes }) => sizeBytes > 0n) &&
    shards.every(
      ([name, state]) => factsOf(state).modifiedNs <= (metadata.get(directoryOf(name))?.modifiedNs ?? -1n),
    )
  );
}

function directoryOf(name: string): string {
  return name.slice(0, name.lastIndexOf('/') + 1);
}

/**
 * The Trainer writes `trainer_state.json` last on rank 0, and each rank its random state. A killed
 * Trainer leaves the beginning of one.
 */
async function hasAllOfTrainer({ path }: Entry, tree: Tree, rankCount: number): Promise<boolean> {
  const states =
    rankCount === 1
      ? ['rng_state.pth']
      : Array.from({ length: rankCount }, (_, rank) => `rng_state_${rank}.pth`);
  if (![TRAINER_STATE, ...states].every((name) => tree.has(name))) return false;
  const ends = await Promise.all(
    states.map((name) => endOf(join(path, name), ZIP_END.length + ZIP_END_REST)),
  );
  return (
    ends.every((end) => end.startsWith(ZIP_END)) &&
    (await endOf(join(path, TRAINER_STATE), 64)).trimEnd().endsWith('}')
  );
}

const TRAINER_STATE = 'trainer_state.json';
/** `torch.save` writes a ZIP file, whose last record has 22 bytes and begins like this. */
const ZIP_END = 'PK\u0005\u0006';
const ZIP_END_REST = 18;

/** The last bytes of a file, as Latin-1. Empty if it is shorter, or gone. */
async function endOf(path: string, lengthBytes: number): Promise<string> {
  const file = await openOrNull(path);
  if (file === null) return '';
  try {
    const { size } = await file.stat();
    const buffer = Buffer.alloc(Math.min(lengthBytes, size));
    const { bytesRead } = await file.read(buffer, 0, buffer.byteLength, size - buffer.byteLength);
    return buffer.toString('latin1', 0, bytesRead);
  } finally {
    await file.close();
  }
}

/**
 * The name in a tracker, which is a short file or a link to a checkpoint. `null`: it is not there,
 * or is something else.
 */
async function namedBy(path: string): Promise<string | null> {
  const target = await readlink(path).catch(() => null);
  if (target !== null) return basename(target);
  const file = await openOrNull(path);
  if (file === null) return null;
  try {
    const stats = await file.stat();
    const isShort = stats.isFile() && stats.size <= TRACKER_BYTES_MAX;
    return isShort ? (await file.readFile('utf8')).trim() : null;
  } finally {
    await file.close();
  }
}

/** `null`: it is gone. */
async function openOrNull(path: string): Promise<FileHandle | null> {
  try {
    // O_NONBLOCK: opening a pipe would wait for its writer.
    return await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return null;
    throw fileError(error, `read ${path}`, { path });
  }
}
