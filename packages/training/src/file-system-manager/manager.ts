/**
 * Checkpoints as directories, in torchelastic's layout: `{root}/{id}/{key}`. Unlike there, a
 * checkpoint gets its number only when it is whole and durable. Until then it is in a staging
 * directory, `.holdfast-…`, whose name no reader takes for a number. A process that dies leaves
 * that directory, which only takes space. The next process of this machine that saves here removes
 * it.
 */

import { join } from 'node:path';
import { jsonReady } from '@holdfast/core/contract';
import {
  assertOutsideRuns,
  DirectorySync,
  type FileSystem,
  fileError,
  linuxProcesses,
  localPath,
  makeDirectories,
  nodeFileSystem,
  type Processes,
  removeAbandoned,
} from '@holdfast/local-files';
import type { TrainingCheckpoint, TrainingCheckpointManager } from '../checkpoints.ts';
import { SavedCheckpoint } from './saved-checkpoint.ts';
import { nextVersion, readSequence } from './sequence.ts';
import { STAGING_PREFIX, StagedCheckpoint } from './staged-checkpoint.ts';

/**
 * torchelastic's FileSystemCheckpointManager; reads and writes the same directories. Reads nothing
 * before the first call and caches no checkpoint; each call lists the directory once. A missing
 * directory holds no checkpoints, and `create` makes it. If two processes save at once, the commit
 * of one is `Conflict`, a temporary failure: a process that was frozen in a save must not commit
 * its old state above newer ones. Bytes have no checksums here.
 *
 * The first `create` removes the unfinished checkpoints of this machine's processes that are
 * certainly gone. It keeps one if it cannot tell (another machine or container, no /proc); delete
 * that one when no process saves here.
 */
export class FileSystemCheckpointManager implements TrainingCheckpointManager {
  readonly #root: string;
  readonly #fileSystem: FileSystem;
  readonly #processes: Processes;
  readonly #sync: DirectorySync;
  #hasTidied = false;

  constructor(
    directory: string,
    fileSystem: FileSystem = nodeFileSystem,
    processes: Processes = linuxProcesses(),
  ) {
    this.#root = localPath(directory);
    this.#fileSystem = fileSystem;
    this.#processes = processes;
    this.#sync = new DirectorySync({ fileSystem });
  }

  /**
   * The version is the number that the checkpoint will get, unless a file has that name. After
   * `commit` it is the final number. `commit` is `Conflict`, with status `temporary`, if another
   * checkpoint was committed after this call: create a new one. `InvalidArgument`: the directory is
   * a Holdfast run or lies in one; a run holds only Holdfast's own objects.
   */
  async create(): Promise<TrainingCheckpoint> {
    await assertOutsideRuns(this.#fileSystem, join(this.#root, 'VERSION'));
    try {
      await makeDirectories(this.#fileSystem, this.#root);
    } catch (error) {
      throw fileError(error, `create ${this.#root}`, { path: this.#root });
    }
    await this.#tidy();
    const version = nextVersion(await readSequence(this.#root, this.#fileSystem));
    return StagedCheckpoint.begin({
      root: this.#root,
      fileSystem: this.#fileSystem,
      sync: this.#sync,
      processes: this.#processes,
      version,
    });
  }

  /**
   * A process can only leave something for a later process, so one cleanup per manager is enough.
   */
  async #tidy(): Promise<void> {
    if (this.#hasTidied) return;
    this.#hasTidied = true;
    // Ignore a failure to list: the next call has to list too and reports it.
    const parts = { fileSystem: this.#fileSystem, processes: this.#processes };
    await removeAbandoned(this.#root, STAGING_PREFIX, parts).catch(() => undefined);
  }

  async get(version: bigint): Promise<TrainingCheckpoint | null> {
    const sequence = await readSequence(this.#root, this.#fileSystem);
    const found = sequence.find((entry) => entry.version === version);
    return found ? new SavedCheckpoint(version, found.path, this.#fileSystem) : null;
  }

  async latest(): Promise<TrainingCheckpoint | null> {
    const [newest] = await readSequence(this.#root, this.#fileSystem);
    return newest ? new SavedCheckpoint(newest.version, newest.path, this.#fileSystem) : null;
  }

  async list(): Promise<{ readonly version: bigint }[]> {
    const sequence = await readSequence(this.#root, this.#fileSystem);
    return sequence.map(({ version }) => jsonReady({ version }));
  }
}
