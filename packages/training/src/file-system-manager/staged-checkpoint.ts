import { sep } from 'node:path';
import { assertChunk, CheckpointError } from '@holdfast/core/contract';
import {
  type DirectorySync,
  errnoOf,
  type FileSystem,
  fileError,
  ownedName,
  type Processes,
} from '@holdfast/local-files';
import type { TrainingCheckpoint } from '../checkpoints.ts';
import { checkKey } from './key.ts';
import { PartFile } from './part-file.ts';
import { SavedCheckpoint } from './saved-checkpoint.ts';
import { nextVersion, readSequence } from './sequence.ts';

/**
 * Starts the name of a checkpoint that is being written. No reader takes such a name for a number.
 */
export const STAGING_PREFIX = '.holdfast-';

/** After this many names in a row were taken by files, something else must be wrong. */
const NUMBERS_TRIED_MAX = 1000;

/** Errors of rename(2) if the new name is a non-empty directory or not a directory. */
const NAME_IS_TAKEN = new Set(['ENOTEMPTY', 'EEXIST', 'ENOTDIR']);

interface StagedParts {
  readonly root: string;
  readonly fileSystem: FileSystem;
  readonly sync: DirectorySync;
  readonly processes: Processes;
  readonly version: bigint;
}

/** A key that is being written. */
interface OpenPart {
  readonly key: string;
  readonly file: PartFile;
  /** Makes the stream fail. */
  fail(reason: unknown): void;
}

/**
 * A checkpoint that is being written. Each stream writes a numbered file in a staging directory
 * next to the root's checkpoints. `commit` moves the last file of each key into one directory,
 * makes it durable, and renames it to its number.
 */
export class StagedCheckpoint implements TrainingCheckpoint {
  readonly #root: string;
  readonly #fileSystem: FileSystem;
  readonly #sync: DirectorySync;
  readonly #staging: string;
  /** Key to the number of its file. */
  readonly #written = new Map<string, number>();
  /** Key to the number of the last file that failed or was aborted. */
  readonly #failed = new Map<string, number>();
  readonly #open = new Set<OpenPart>();
  /** The number that was next when this checkpoint began. */
  readonly #begunAs: bigint;
  #version: bigint;
  #openedCount = 0;
  #state: 'open' | 'committing' | 'committed' | 'discarded' = 'open';
  #committing: Promise<void> | undefined;

  private constructor({ root, fileSystem, sync, version }: StagedParts, staging: string) {
    this.#root = root;
    this.#fileSystem = fileSystem;
    this.#sync = sync;
    this.#staging = staging;
    this.#begunAs = version;
    this.#version = version;
  }

  static async begin(parts: StagedParts): Promise<StagedCheckpoint> {
    const staging = `${parts.root}${sep}${await ownedName(STAGING_PREFIX, parts.processes)}`;
    try {
      await parts.fileSystem.mkdir(staging);
    } catch (error) {
      throw fileError(error, `create ${staging}`, { path: staging });
    }
    return new StagedCheckpoint(parts, staging);
  }

  get version(): bigint {
    return this.#version;
  }

  openOutputStream(key: string): WritableStream<Uint8Array> {
    if (this.#state !== 'open') throw this.#error(`is already ${this.#state}`);
    checkKey(key);
    const index = this.#openedCount++;
    const file = new PartFile(`${this.#staging}${sep}${index}`, this.#fileSystem);
    let part: OpenPart | undefined;
    const giveUp = async () => {
      this.#failed.set(key, Math.max(index, this.#failed.get(key) ?? 0));
      if (part) this.#open.delete(part);
      await file.abandon();
    };
    const orGiveUp = (work: Promise<void>) =>
      work.catch(async (error: unknown) => {
        await giveUp();
        throw error;
      });
    const write = async (chunk: Uint8Array) => {
      assertChunk(key, chunk);
      await file.write(chunk);
    };
    return new WritableStream<Uint8Array>({
      start: (controller) => {
        part = { key, file, fail: (reason) => controller.error(reason) };
        this.#open.add(part);
        return orGiveUp(file.open());
      },
      write: (chunk) => orGiveUp(write(chunk)),
      close: async () => {
        await orGiveUp(file.finish());
        if ((this.#written.get(key) ?? -1) < index) this.#written.set(key, index);
        if (part) this.#open.delete(part);
      },
      abort: giveUp,
    });
  }

  openInputStream(key: string): ReadableStream<Uint8Array> {
    if (this.#state !== 'committed') throw this.#error('is not committed: there is nothing to read yet');
    return new SavedCheckpoint(this.#version, this.#pathOf(this.#version), this.#fileSystem).openInputStream(
      key,
    );
  }

  async commit(): Promise<void> {
    if (this.#committing === undefined) {
      this.#assertComplete();
      this.#committing = this.#commit();
    }
    return this.#committing;
  }

  async discard(): Promise<void> {
    await this.#committing?.catch(() => undefined); // the caller of commit has the error
    if (this.#state === 'committed') return;
    this.#state = 'discarded';
    const reason = new CheckpointError('Aborted', `checkpoint ${this.#version} was discarded`);
    for (const part of this.#open) {
      part.fail(reason);
      await part.file.abandon();
    }
    this.#open.clear();
    try {
      await this.#fileSystem.removeAll(this.#staging);
    } catch (error) {
      throw fileError(error, `remove ${this.#staging}`, { path: this.#staging });
    }
  }

  #assertComplete(): void {
    if (this.#state === 'discarded') throw this.#error('was discarded');
    const failed = [...this.#failed].filter(([key, index]) => (this.#written.get(key) ?? -1) < index);
    const unfinished = new Set([...[...this.#open].map(({ key }) => key), ...failed.map(([key]) => key)]);
    if (unfinished.size > 0) {
      const keys = [...unfinished].join(', ');
      throw this.#error(`has output streams that are open or have failed: ${keys}; write those keys again`);
    }
    if (this.#written.size === 0) throw this.#error('has no file to commit');
  }

  async #commit(): Promise<void> {
    this.#state = 'committing';
    await this.#gatherAndPublish().catch((error: unknown) => {
      throw fileError(error, `commit checkpoint ${this.#version} in ${this.#root}`, { path: this.#root });
    });
    this.#state = 'committed';
    await this.#settle();
  }

  async #gatherAndPublish(): Promise<void> {
    const gathered = `${this.#staging}${sep}checkpoint`;
    await this.#fileSystem.mkdir(gathered);
    for (const [key, index] of this.#written) {
      await this.#fileSystem.rename(`${this.#staging}${sep}${index}`, `${gathered}${sep}${key}`);
    }
    await this.#sync.sync(gathered);
    for (let triedCount = 0; triedCount < NUMBERS_TRIED_MAX; triedCount++) {
      await this.#assertNewest();
      if (await this.#took(gathered, this.#version)) return;
      this.#version += 1n;
    }
    throw new CheckpointError(
      'Unavailable',
      `${this.#root}: ${NUMBERS_TRIED_MAX} names in a row were taken by other files`,
    );
  }

  /**
   * Throws if a checkpoint was committed since this one began: with a number above it, this older
   * state would be the latest, as after a save in which the process was frozen.
   */
  async #assertNewest(): Promise<void> {
    const next = nextVersion(await readSequence(this.#root, this.#fileSystem));
    if (next <= this.#begunAs) return;
    throw new CheckpointError(
      'Conflict',
      `${this.#root}: checkpoint ${next - 1n} was committed after this one began as ${this.#begunAs}; save the present state in a new checkpoint`,
      // The next save of a train loop begins above it.
      { status: 'temporary', context: { path: this.#root, version: this.#begunAs, newest: next - 1n } },
    );
  }

  /** False: another entry has the number. */
  async #took(gathered: string, version: bigint): Promise<boolean> {
    try {
      await this.#fileSystem.rename(gathered, this.#pathOf(version));
      return true;
    } catch (error) {
      if (NAME_IS_TAKEN.has(errnoOf(error) ?? '')) return false;
      throw error;
    }
  }

  /**
   * Makes the rename durable. The checkpoint has its number by now, and other processes may have
   * read it.
   */
  async #settle(): Promise<void> {
    try {
      await this.#sync.sync(this.#root);
    } catch (error) {
      throw new CheckpointError(
        'OutcomeUnknown',
        `checkpoint ${this.#version} is in ${this.#root}, but a power failure might still undo it`,
        { cause: error, context: { path: this.#root, version: this.#version } },
      );
    }
    // If this fails, it leaves a hidden directory that only takes space.
    await this.#fileSystem.removeAll(this.#staging).catch(() => undefined);
  }

  #pathOf(version: bigint): string {
    return `${this.#root}${sep}${version}`;
  }

  #error(what: string): CheckpointError {
    return new CheckpointError('InvalidArgument', `checkpoint ${this.#version} ${what}`, {
      context: { version: this.#version, path: this.#root },
    });
  }
}
