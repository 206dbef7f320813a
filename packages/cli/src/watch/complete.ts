/** When a trainer has finished writing a checkpoint. No trainer says so in the same way. */

import { constants, type FileHandle, lstat, open, readlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { isTruncatedPickle } from '@holdfast/core';
import { CheckpointError } from '@holdfast/core/contract';
import { errnoOf, fileError } from '@holdfast/local-files';
import type { Pattern } from './pattern.ts';
import type { Rule } from './rule.ts';
import { type Entry, factsOf, isSameTree, type Tree } from './tree.ts';

/** Files that name the newest checkpoint: of DeepSpeed, of Megatron and of verl. */
const TRACKERS = ['latest', 'latest_checkpointed_iteration.txt'];

const TRACKER_BYTES_MAX = 4096n;

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
  /** When a tracker that named the version was written. */
  readonly #tracked = new Map<bigint, bigint>();

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
    if (rule.kind === 'metadata') return hasMetadata(entry, tree);
    if (rule.kind === 'hf') {
      if (!(await hasAllOfTrainer(entry, tree, rule.rankCount))) return false;
      return this.#isOfOneSave(entry, tree, mixedTrainerFile(tree), MIXED_MS);
    }
    if (rule.kind === 'quiet') return this.#isQuiet(entry, tree, rule.quietMs);
    await this.#readTrackers(entry);
    const namedNs = this.#tracked.get(entry.version);
    if (namedNs === undefined) return false;
    const mixed = fileAfter(tree, namedNs, Math.max(rule.quietMs, AFTER_TRACKER_MS));
    if (!this.#isOfOneSave(entry, tree, mixed, MIXED_MS)) return false;
    return this.#isQuiet(entry, tree, rule.quietMs);
  }

  /**
   * False if a file is of another save than the rest: the trainer writes the checkpoint again, or
   * was killed while it did. Throws `SourceChanged` once that has stayed so.
   */
  #isOfOneSave(entry: Entry, tree: Tree, mixed: string | null, quietMs: number): boolean {
    if (mixed === null) return true;
    if (!this.#isQuiet(entry, tree, quietMs)) return false;
    const { path } = entry;
    const message = `${path} is not of one save: ${mixed}`;
    throw new CheckpointError('SourceChanged', message, { context: { path } });
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
  async #readTrackers({ path }: Entry): Promise<void> {
    for (const name of TRACKERS) {
      const named = await namedBy(join(dirname(path), name));
      const version = named === null ? null : this.#versionOf(named.text);
      if (named !== null && version !== null) this.#tracked.set(version, named.modifiedNs);
    }
  }

  #versionOf(text: string): bigint | null {
    return /^\d{1,18}$/.test(text) ? BigInt(text) : this.#pattern.versionIn(text);
  }
}

/**
 * PyTorch's DCP writes `.metadata` last, into the directory of each of its checkpoints. A younger
 * shard is of a later save into the same directory, which is under way or was killed. A trainer
 * that was killed while it wrote `.metadata` leaves the beginning of one.
 */
async function hasMetadata({ path }: Entry, tree: Tree): Promise<boolean> {
  const metadata = new Map(
    [...tree]
      .filter(([name]) => /(^|\/)\.metadata$/.test(name))
      .map(([name, state]) => [directoryOf(name), { ...factsOf(state), path: join(path, name) }]),
  );
  const shards = [...tree].filter(([name]) => /(^|\/)__[^/]*\.distcp$/.test(name));
  const isOfOneSave = shards.every(
    ([name, state]) => factsOf(state).modifiedNs <= (metadata.get(directoryOf(name))?.modifiedNs ?? -1n),
  );
  if (metadata.size === 0 || !isOfOneSave) return false;
  for (const { path, sizeBytes } of metadata.values())
    if (sizeBytes === 0n || !(await isWholePickle(path, sizeBytes))) return false;
  return true;
}

/** A longer one is not read: its last byte decides. */
const PICKLE_BYTES_MAX = 16 * 1024 * 1024;

/** The last byte of a pickle is a dot. A truncated one may end with a dot by chance. */
async function isWholePickle(path: string, sizeBytes: bigint): Promise<boolean> {
  if ((await endOf(path, 1)) !== '.') return false;
  if (sizeBytes > PICKLE_BYTES_MAX) return true;
  return !isTruncatedPickle(Buffer.from(await endOf(path, PICKLE_BYTES_MAX), 'latin1'));
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

/**
 * Why files of a complete checkpoint are of different saves; `null`: they are not.
 *
 * Rank 0 writes model, optimizer, scheduler, its random state and then `trainer_state.json`. The
 * others write their random states at any time between: they wait for the others before the save,
 * and not in it.
 */
function mixedTrainerFile(tree: Tree): string | null {
  const times = [...tree].map(([name, state]) => ({ name, modifiedNs: factsOf(state).modifiedNs }));
  const endedNs = times.find(({ name }) => name === TRAINER_STATE)?.modifiedNs ?? 0n;
  const isOfOtherRank = (name: string) => /^rng_state_[1-9][0-9]*\.pth$/.test(name);
  const ofFirstRank = times.filter(({ name }) => !isOfOtherRank(name));
  const younger = ofFirstRank.find(({ modifiedNs }) => modifiedNs > endedNs);
  if (younger) return `${younger.name} is younger than ${TRAINER_STATE}, which the Trainer writes last`;
  const [beganNs = endedNs] = ofFirstRank
    .map(({ modifiedNs }) => modifiedNs)
    .sort((one, other) => (one < other ? -1 : 1));
  const older = times.find(({ modifiedNs }) => modifiedNs < beganNs - BEFORE_SAVE_NS);
  return older ? `${older.name} is older than all files of rank 0` : null;
}

/** Ranks begin a save together, as far as their clocks agree. */
const BEFORE_SAVE_NS = 2_000_000_000n;
/** A trainer that writes a checkpoint again changes its files more often. */
const MIXED_MS = 30_000;
/** DeepSpeed names a checkpoint while other ranks may still write, for less than this. */
const AFTER_TRACKER_MS = 60_000;

/** Names a file written long after the tracker. `null`: there is no such file. */
function fileAfter(tree: Tree, namedNs: bigint, afterMs: number): string | null {
  const untilNs = namedNs + BigInt(afterMs) * 1_000_000n;
  const late = [...tree].find(([, state]) => factsOf(state).modifiedNs > untilNs);
  return late ? `${late[0]} was written more than ${afterMs / 1000} s after the tracker` : null;
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
async function namedBy(path: string): Promise<{ readonly text: string; readonly modifiedNs: bigint } | null> {
  const target = await readlink(path).catch(() => null);
  const link = target === null ? null : await lstat(path, { bigint: true }).catch(() => null);
  if (target !== null && link !== null) return { text: basename(target), modifiedNs: link.mtimeNs };
  const file = await openOrNull(path);
  if (file === null) return null;
  try {
    const stats = await file.stat({ bigint: true });
    if (!stats.isFile() || stats.size > TRACKER_BYTES_MAX) return null;
    return { text: (await file.readFile('utf8')).trim(), modifiedNs: stats.mtimeNs };
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
