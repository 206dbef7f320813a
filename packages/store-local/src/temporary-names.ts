/**
 * Names of temporary files. That of an upload is known to others, who may go on with it; whose it
 * is stands in its note. Any other carries its process, so that what one leaves when it is killed
 * is removed as soon as it is certainly gone.
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
 * A file without a write for so long is that of a process that is gone. If it is not, its upload
 * fails; nothing is damaged.
 */
const AGE_MS_MAX = 24 * 60 * 60 * 1000;

const OWN = /^[0-9a-f]{24}-\d{1,15}(?:\.by-(.+))?$/;

export class TemporaryNames {
  /** With a number behind it, each name: drawn once, because drawing is not cheap. */
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

  /** Has it been made here? */
  has(name: string): boolean {
    return name.startsWith(this.#id);
  }
}

export interface SweepParts {
  readonly fileSystem: FileSystem;
  /** Of the temporary files. */
  readonly directory: string;
  /** Of this process. */
  readonly own: TemporaryNames;
  readonly processes: Processes | null;
  readonly nowMs: () => Promise<number>;
}

/**
 * Removes what is certainly of no use. Never throws: garbage that cannot be looked at or removed
 * today is there tomorrow.
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
  // A note is as old as its upload, whose file may be written to this very moment.
  if (noted !== undefined && names.has(noted)) return false;
  const match = OWN.exec(name);
  if (noted === undefined && match === null) return false; // not ours
  const owner = processOfText(match?.[1] ?? '');
  if (owner !== null && ((await processes?.isCertainlyGone(owner)) ?? false)) return true;
  const stats = await fileSystem.lstat(`${here}/${name}`).catch(() => null);
  return (
    (stats?.isFile() ?? false) && (await nowMs()) - Number((stats?.mtimeNs ?? 0n) / 1_000_000n) > AGE_MS_MAX
  );
}
