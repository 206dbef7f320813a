/**
 * Creates objects. The bytes go to a temporary file, which is made durable. `link` then gives it
 * its name: at that moment the object exists, and `link` fails if the name is taken. Then the name
 * is made durable, and the temporary name is removed.
 *
 * Without hard links, the file moves to a separate directory and a symbolic link takes the name.
 * `symlink` also fails if the name is taken, and the object is complete from the first moment.
 * Opening the name itself with O_EXCL would expose half an object.
 */

import { constants } from 'node:fs';
import { basename, dirname, relative } from 'node:path';
import type { ObjectInfo } from '@holdfast/core/contract';
import { type Check, DirectFile, errnoOf, type FileSystem, makeDirectories } from '@holdfast/local-files';
import type { LocalConfig } from './config.ts';
import type { DurableNames } from './durable-names.ts';
import { objectError, type StoreSubject, writeError } from './errors.ts';
import { infoOf, type ObjectFiles } from './object-files.ts';
import type { TemporaryNames } from './temporary-names.ts';

/**
 * Other processes remove empty directories, so a new directory may vanish at once. Against a
 * process that does nothing else, half of the tries fail: this many failures in a row are no
 * coincidence.
 */
const DIRECTORY_TRIES_MAX = 500;

const NO_HARD_LINKS = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK']);

export interface ObjectWriterParts {
  readonly config: LocalConfig;
  readonly fileSystem: FileSystem;
  readonly files: ObjectFiles;
  readonly names: DurableNames;
  readonly temporaries: TemporaryNames;
  /**
   * Runs once, in the background, at the first write. That write has made the directories by then,
   * if it can. Never throws.
   */
  readonly tidy: () => Promise<void>;
}

/** A file that has no name of its own yet. */
export interface TemporaryFile {
  readonly path: string;
  readonly file: DirectFile;
}

export class ObjectWriter {
  readonly #parts: ObjectWriterParts;
  #tidying: Promise<void> | null = null;

  constructor(parts: ObjectWriterParts) {
    this.#parts = parts;
  }

  /** `check` is no longer called once the object may exist: from then on the outcome counts. */
  async create(key: string, bytes: Uint8Array, check: Check): Promise<ObjectInfo> {
    const { names } = this.#parts;
    names.assertTrusted(key);
    const temporary = await this.openTemporary(key, this.#parts.temporaries.ofOther());
    try {
      await temporary.file.write(0, bytes, check);
      await this.makeDurable(temporary.file);
      const stats = await temporary.file.stat();
      await temporary.file.close();
      check();
      await this.name(temporary, key);
      await Promise.all([names.made(key), this.remove(temporary)]);
      return infoOf(key, stats);
    } catch (error) {
      await this.remove(temporary);
      throw writeError(error, 'create', this.#subject(key));
    }
  }

  async openTemporary(key: string, name: string): Promise<TemporaryFile> {
    const { files, fileSystem, config } = this.#parts;
    const path = `${files.temporaryDirectory}/${name}`;
    const flags = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL;
    const open = () => DirectFile.open(path, flags, { direct: config.direct === 'auto', fileSystem });
    try {
      const file = await open().catch(async (error: unknown) => {
        if (errnoOf(error) !== 'ENOENT') throw error;
        await makeDirectories(fileSystem, files.temporaryDirectory);
        return open();
      });
      return { path, file };
    } catch (error) {
      // The name is new: a network file system has sent one request twice, and the first was done.
      if (errnoOf(error) === 'EEXIST')
        throw objectError('Unavailable', this.#subject(key), 'could not be written: try again', error);
      throw writeError(error, 'create', this.#subject(key));
    } finally {
      // Also after a failure: tidying may free the space that was missing.
      this.#tidying ??= this.#parts.tidy();
    }
  }

  /**
   * Opens the file of a handle that no longer writes to it. `null`: it is gone, or has become an
   * object.
   */
  async reopenTemporary(name: string): Promise<TemporaryFile | null> {
    const { files, fileSystem, config } = this.#parts;
    const path = `${files.temporaryDirectory}/${name}`;
    const options = { direct: config.direct === 'auto', fileSystem };
    const file = await DirectFile.open(path, constants.O_RDWR | constants.O_NOFOLLOW, options).catch(
      (error: unknown) => {
        if (errnoOf(error) === 'ENOENT') return null;
        throw error;
      },
    );
    if (file === null) return null;
    try {
      const stats = await file.stat();
      if (stats.isFile() && stats.nlink === 1n) return { path, file };
    } catch (error) {
      await file.close();
      throw error;
    }
    // Its other name is that of the object.
    await this.remove({ path, file });
    return null;
  }

  async makeDurable(file: DirectFile): Promise<void> {
    if (this.#parts.config.durability === 'fsync') await file.datasync();
  }

  /**
   * Gives a finished file its name. Throws `AlreadyExists` if another file has the name. Succeeds
   * if this file already has it, which happens on a second call, or after a network file system
   * lost the answer.
   */
  async name(temporary: TemporaryFile, key: string): Promise<void> {
    const { fileSystem, files } = this.#parts;
    const path = files.pathOf(key);
    try {
      await this.#inDirectory(path, () => fileSystem.link(temporary.path, path));
    } catch (error) {
      if (NO_HARD_LINKS.has(errnoOf(error) ?? '')) await this.#nameByLink(temporary, key);
      else if (!(await this.#isNamed(temporary, path))) throw await this.#taken(error, path, key);
    }
  }

  /** Never throws: a leftover only takes space, until it is swept. */
  async remove(temporary: TemporaryFile): Promise<void> {
    await temporary.file.close().catch(() => undefined);
    await this.#parts.fileSystem.unlink(temporary.path).catch(() => undefined);
  }

  /** Waits for the tidying under way, if any. */
  async tidied(): Promise<void> {
    await this.#tidying;
  }

  /** Makes the directories of `path` if they are missing. */
  async #inDirectory(path: string, act: () => Promise<void>): Promise<void> {
    for (let tries = 1; ; tries++) {
      try {
        if (tries > 1) await makeDirectories(this.#parts.fileSystem, dirname(path));
        return await act();
      } catch (error) {
        if (errnoOf(error) !== 'ENOENT' || tries === DIRECTORY_TRIES_MAX) throw error;
      }
    }
  }

  /**
   * No other process knows the temporary name. So if it has a second name, or the key has the same
   * inode, this process linked it.
   */
  async #isNamed(temporary: TemporaryFile, path: string): Promise<boolean> {
    const { fileSystem } = this.#parts;
    const own = await fileSystem.lstat(temporary.path);
    const found = await fileSystem.lstat(path).catch(() => null);
    return own.nlink > 1n || (found?.ino === own.ino && found.dev === own.dev);
  }

  /** Reports that an object exists only once it is durable, because the caller may depend on it. */
  async #taken(error: unknown, path: string, key: string): Promise<unknown> {
    if (errnoOf(error) !== 'EEXIST') return error;
    const { fileSystem, files, names } = this.#parts;
    const subject = this.#subject(key);
    const named = await fileSystem.lstat(path).catch(() => null);
    if (named?.isDirectory()) {
      const what = 'cannot be written: its key is a prefix of other keys';
      return objectError('InvalidArgument', subject, what, error);
    }
    const found = await files.find(key);
    if (found !== null) await names.met(key, found);
    return objectError('AlreadyExists', subject, 'already exists', error);
  }

  async #nameByLink(temporary: TemporaryFile, key: string): Promise<void> {
    const { fileSystem, files, names } = this.#parts;
    const path = files.pathOf(key);
    const data = `${files.linkedDirectory}/${basename(temporary.path)}`;
    const target = relative(dirname(path), data);
    await makeDirectories(fileSystem, files.linkedDirectory);
    await fileSystem.rename(temporary.path, data).catch(async (error: unknown) => {
      await fileSystem.lstat(data).catch(() => Promise.reject(error)); // Moved by an earlier call.
    });
    await names.prepared(key, files.linkedDirectory);
    try {
      await this.#inDirectory(path, () => fileSystem.symlink(target, path));
    } catch (error) {
      if ((await fileSystem.readlink(path).catch(() => null)) === target) return;
      const errno = errnoOf(error) ?? '';
      // Any other failure may still take effect later, and a link must not point at nothing.
      if (errno === 'EEXIST' || NO_HARD_LINKS.has(errno))
        await fileSystem.unlink(data).catch(() => undefined);
      if (!NO_HARD_LINKS.has(errno)) throw await this.#taken(error, path, key);
      const what = `cannot be created: the file system does not allow hard or symbolic links (${errno})`;
      throw objectError('Unsupported', this.#subject(key), what, error);
    }
  }

  #subject(key: string): StoreSubject {
    return { store: this.#parts.config.uri, key };
  }
}
