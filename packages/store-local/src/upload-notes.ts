/**
 * Records the owner of each upload. Beside its temporary file lies a note, `FILE.upload-OWNER`. The
 * note holds the key, and its name holds the process that may write to the file. A process takes an
 * upload over by renaming the note: of any number that try, exactly one succeeds.
 */

import { constants } from 'node:fs';
import {
  DirectFile,
  errnoOf,
  type FileSystem,
  type Processes,
  type ProcessIdentity,
  processOfText,
  processText,
} from '@holdfast/local-files';

/** What a note says about its upload, for listing. */
export interface UploadNote {
  readonly key: string;
  readonly partSizeBytes: number;
  readonly beganAtMs: number;
}

export interface NotesParts {
  readonly fileSystem: FileSystem;
  /** Directory of the temporary files. */
  readonly directory: string;
  readonly processes: Processes;
  readonly self: ProcessIdentity;
}

/** In the place of the owner: no process writes to the file. */
const FREE = 'free';
const NOTE = /^([0-9a-f]{24}-\d{1,15})\.upload-(.+)$/;

/** Name of the file that a note describes; `undefined` if the name is not that of a note. */
export function notedFile(name: string): string | undefined {
  return NOTE.exec(name)?.[1];
}

export class UploadNotes {
  readonly #parts: NotesParts;
  /** This process, as notes name it. */
  readonly self: string;

  constructor(parts: NotesParts) {
    this.#parts = parts;
    this.self = processText(parts.self);
  }

  async write(file: string, note: UploadNote): Promise<void> {
    const { fileSystem } = this.#parts;
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;
    const opened = await DirectFile.open(this.#pathOf(file, this.self), flags, {
      direct: false,
      fileSystem,
    });
    try {
      await opened.write(0, new TextEncoder().encode(JSON.stringify(note)));
    } finally {
      await opened.close();
    }
  }

  /**
   * Takes ownership of the upload. Resolves to the reason if it cannot, or to `null` on success.
   */
  async claim(file: string): Promise<string | null> {
    const owner = await this.#ownerOf(file);
    if (owner === null) return 'it is completed, aborted or expired';
    if (owner !== FREE) {
      const process = processOfText(owner);
      const isGone = process !== null && (await this.#parts.processes.isCertainlyGone(process));
      if (!isGone)
        return `process ${process?.pid ?? owner}, which began it or took it over, may still be writing to it`;
    }
    try {
      await this.#parts.fileSystem.rename(this.#pathOf(file, owner), this.#pathOf(file, this.self));
      return null;
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return 'another process has just taken it over';
      throw error;
    }
  }

  /** Releases ownership: this process no longer writes to the file. */
  async free(file: string): Promise<void> {
    await this.#parts.fileSystem.rename(this.#pathOf(file, this.self), this.#pathOf(file, FREE));
  }

  /** Removes the note of an upload of this process. */
  async remove(file: string): Promise<void> {
    await this.#parts.fileSystem.unlink(this.#pathOf(file, this.self));
  }

  /** Lists all readable notes, with the names of their files. */
  async list(): Promise<{ file: string; note: UploadNote }[]> {
    const found: { file: string; note: UploadNote }[] = [];
    for (const name of await this.#names()) {
      const file = notedFile(name);
      const note = file === undefined ? null : await this.#read(`${this.#parts.directory}/${name}`);
      if (file !== undefined && note !== null) found.push({ file, note });
    }
    return found;
  }

  async #ownerOf(file: string): Promise<string | null> {
    for (const name of await this.#names()) {
      const [, noted, owner = ''] = NOTE.exec(name) ?? [];
      if (noted === file) return owner;
    }
    return null;
  }

  async #names(): Promise<string[]> {
    try {
      const entries = await this.#parts.fileSystem.readdir(this.#parts.directory);
      return entries.map((entry) => entry.name.toString('utf8'));
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return [];
      throw error;
    }
  }

  /** Null: the note has just gone, or the process died while writing it. */
  async #read(path: string): Promise<UploadNote | null> {
    try {
      const text = await this.#parts.fileSystem.readText(path);
      const { key, partSizeBytes, beganAtMs } = (JSON.parse(text) ?? {}) as Partial<UploadNote>;
      const isNote =
        typeof key === 'string' && typeof partSizeBytes === 'number' && typeof beganAtMs === 'number';
      return isNote ? { key, partSizeBytes, beganAtMs } : null;
    } catch (error) {
      if (errnoOf(error) === 'ENOENT' || error instanceof SyntaxError) return null;
      throw error;
    }
  }

  #pathOf(file: string, owner: string): string {
    return `${this.#parts.directory}/${file}.upload-${owner}`;
  }
}
