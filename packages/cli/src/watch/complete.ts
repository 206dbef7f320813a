/** When a trainer has finished writing a checkpoint. No trainer says so in the same way. */

import { constants, lstat, open, readlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { errnoOf, fileError } from '@holdfast/local-files';
import type { Pattern } from './pattern.ts';
import type { Rule } from './rule.ts';
import { type Entry, isSameTree, type Tree } from './tree.ts';

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
    if (rule.kind === 'metadata') return hasMetadata([...tree.keys()]);
    if (rule.kind === 'hf') return hasAllOfTrainer(tree, rule.rankCount);
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

  async #isTracked({ path, version }: Entry): Promise<boolean> {
    for (const name of TRACKERS) {
      const text = await namedBy(join(dirname(path), name));
      const tracked = text === null ? null : this.#versionOf(text);
      // An older one was named before.
      if (tracked !== null && tracked >= version) return true;
    }
    return false;
  }

  #versionOf(text: string): bigint | null {
    return /^\d{1,18}$/.test(text) ? BigInt(text) : this.#pattern.versionIn(text);
  }
}

/** PyTorch's DCP writes `.metadata` last, into the directory of each of its checkpoints. */
function hasMetadata(names: readonly string[]): boolean {
  const places = new Set(names.filter((name) => /(^|\/)\.metadata$/.test(name)).map(directoryOf));
  const isShard = (name: string) => /(^|\/)__[^/]*\.distcp$/.test(name);
  return places.size > 0 && names.filter(isShard).every((name) => places.has(directoryOf(name)));
}

function directoryOf(name: string): string {
  return name.slice(0, name.lastIndexOf('/') + 1);
}

/** The Trainer writes `trainer_state.json` last on rank 0, and each rank its random state. */
function hasAllOfTrainer(tree: Tree, rankCount: number): boolean {
  const states =
    rankCount === 1
      ? ['rng_state.pth']
      : Array.from({ length: rankCount }, (_, rank) => `rng_state_${rank}.pth`);
  return ['trainer_state.json', ...states].every((name) => tree.has(name));
}

/**
 * The name in a tracker, which is a short file or a link to a checkpoint. `null`: it is not there,
 * or is something else.
 */
async function namedBy(path: string): Promise<string | null> {
  try {
    if ((await lstat(path)).isSymbolicLink()) return basename(await readlink(path));
    // O_NONBLOCK: opening a pipe would wait for its writer.
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const stats = await file.stat();
      const isShort = stats.isFile() && stats.size <= TRACKER_BYTES_MAX;
      return isShort ? (await file.readFile('utf8')).trim() : null;
    } finally {
      await file.close();
    }
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return null;
    throw fileError(error, `read ${path}`, { path });
  }
}
