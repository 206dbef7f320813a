/**
 * Temporary names carry their process. So the leftovers of a killed process can be told from files
 * that a live process is writing, and only the leftovers are removed.
 */

import { sep } from 'node:path';
import { systemRandom } from '@holdfast/core/contract';
import type { FileSystem } from './file-system.ts';
import { type Processes, processOfText, processText } from './processes.ts';

const DIGITS = 16;
const REST = new RegExp(`^[0-9a-f]{${DIGITS}}(?:\\.([0-9][0-9a-f-]+))?(\\.[a-z]+(?:-0)?)?$`);

/** Makes a unique name. It identifies the process, if processes can be told apart here. */
export async function ownedName(prefix: string, processes: Processes): Promise<string> {
  const self = await processes.self();
  return `${prefix}${systemRandom.hex(DIGITS)}${self === null ? '' : `.${processText(self)}`}`;
}

export interface OwnedEntry {
  readonly name: string;
  /** What follows the name made by `ownedName`: nothing, or a dot and a word. */
  readonly ending: string;
  /** Also false if it is unknown: on another machine, in another container, or without /proc. */
  readonly isAbandoned: boolean;
}

/**
 * Lists the entries of a directory that begin with `prefix` and have such a name, with any ending.
 * Throws the errors of the system calls.
 */
export async function ownedEntries(
  directory: string,
  prefix: string,
  { fileSystem, processes }: { fileSystem: FileSystem; processes: Processes },
): Promise<OwnedEntry[]> {
  const found: OwnedEntry[] = [];
  for (const entry of await fileSystem.readdir(directory)) {
    const name = entry.name.toString('utf8');
    const match = name.startsWith(prefix) ? REST.exec(name.slice(prefix.length)) : null;
    if (match === null) continue;
    const owner = processOfText(match[1] ?? '');
    const isAbandoned = owner !== null && (await processes.isCertainlyGone(owner));
    found.push({ name, ending: match[2] ?? '', isAbandoned });
  }
  return found;
}

/**
 * Removes unfinished files of processes that are gone, if their names have no ending. A file that
 * cannot be removed stays: it only takes room.
 */
export async function removeAbandoned(
  directory: string,
  prefix: string,
  parts: { fileSystem: FileSystem; processes: Processes },
): Promise<void> {
  for (const { name, ending, isAbandoned } of await ownedEntries(directory, prefix, parts)) {
    if (!isAbandoned || ending !== '') continue;
    await parts.fileSystem.removeAll(`${directory}${sep}${name}`).catch(() => undefined);
  }
}
