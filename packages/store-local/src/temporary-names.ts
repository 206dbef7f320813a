/**
 * Names of temporary files. Other processes know the name of an upload's file and may resume it.
 * Its note names its owner. Any other name carries its process, so that the file of a killed
 * process is removed as soon as the process is certainly gone.
 */

import { systemRandom } from '@holdfast/core/contract';
import {
  type FileSystem,
  inDirectory,
  type Processes,
  type ProcessIdentity,
  processOfText,
  processText,
} from '@holdfast/local-files';
import { notedFile } from './upload-notes.ts';

/**
 * A file without a write for this long is taken to belong to a process that is gone. If the process
 * still lives, its upload fails. Nothing is damaged.
 */
const AGE_MS_MAX = 24 * 60 * 60 * 1000;

const OWN = /^[0-9a-f]{24}-\d{1,15}(?:\.by-(.+))?$/;

export class TemporaryNames {
  /**
   * Prefix of each name, followed by a number. Drawn once, because random numbers are not cheap.
   */
  readonly #id = systemRandom.hex(24);
  readonly #owner: string;
  #count = 0;

  constructor(self: ProcessIdentity | null) {
    this.#owner = self === null ? '' : `.by-${processText(self)}`;
  }

  ofUpload(): string {
    this.#count++;
    return `${this.#id}-${this.#count}`;
  }

  ofOther(): string {
    return `${this.ofUpload()}${this.#owner}`;
  }

  /** Tells whether this instance made the name. */
  has(name: string): boolean {
    return name.startsWith(this.#id);
  }
}

export interface SweepParts {
  readonly fileSystem: FileSystem;
  /** Directory of the temporary files. */
  readonly directory: string;
  /** Names of this process. */
  readonly own: TemporaryNames;
  readonly processes: Processes | null;
  readonly nowMs: () => Promise<number>;
}

/**
 * Removes temporary files that are certainly useless. Never throws: what cannot be examined or
 * removed now is left for the next sweep.
 */
export async function sweepTemporaries({ fileSystem, directory, ...parts }: SweepParts): Promise<void> {
  await inDirectory(fileSystem, directory, async (here) => {
    const entries = await fileSystem.readdir(here);
    const names = new Set(entries.map((entry) => entry.name.toString('utf8')));
    for (const name of names) {
      if (await isGarbage(name, names, { fileSystem, here, ...parts }))
        await fileSystem.unlink(`${here}/${name}`).catch(() => undefined);
    }
  }).catch(() => undefined);
}

async function isGarbage(
  name: string,
  names: ReadonlySet<string>,
  { fileSystem, here, own, processes, nowMs }: Omit<SweepParts, 'directory'> & { readonly here: string },
): Promise<boolean> {
  if (own.has(name)) return false;
  const noted = notedFile(name);
  // A note is as old as its upload, and a process may be writing to the upload's file right now.
  if (noted !== undefined && names.has(noted)) return false;
  const match = OWN.exec(name);
  if (noted === undefined && match === null) return false; // Not a file of the store.
  const owner = processOfText(match?.[1] ?? '');
  if (owner !== null && ((await processes?.isCertainlyGone(owner)) ?? false)) return true;
  const stats = await fileSystem.lstat(`${here}/${name}`).catch(() => null);
  return (
    (stats?.isFile() ?? false) && (await nowMs()) - Number((stats?.mtimeNs ?? 0n) / 1_000_000n) > AGE_MS_MAX
  );
}
