/**
 * Checkpoints as directories, in torchelastic's layout: `{root}/{id}/{key}`. Unlike there, a checkpoint has its number only when it is whole
 * and durable; until then it lies in a directory beside, `.holdfast-…`, whose name no reader takes for a number. A process that dies leaves
 * that directory, which takes room and nothing else; the next one of this machine that saves here removes it.
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
 * torchelastic's FileSystemCheckpointManager, which reads and writes the same directories. Nothing is read before the first call, and no
 * checkpoint is kept in mind between calls; each costs one look into the directory. A directory that is not there holds no checkpoint, and `create`
 * makes it. Several processes may save at once: each checkpoint gets a number of its own. Bytes have no checksums here.
 * The first `create` removes what processes of this machine that are certainly gone were writing; where nobody can tell (another machine or
 * container, no /proc) it stays, and may be deleted when nobody saves.
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
   * Its version is the number that it will have unless somebody else takes that first; after `commit` it is the one that it has.
   * `InvalidArgument`: the directory is a run of Holdfast, or lies in one; a run holds only Holdfast's own objects.
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

  /** Who dies leaves something for a later process, so that once in a life is enough. */
  async #tidy(): Promise<void> {
    if (this.#hasTidied) return;
    this.#hasTidied = true;
    // What cannot be listed is an error of the next call, which has to.
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
