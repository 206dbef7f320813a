/**
 * What a process makes beside its work carries the process in its name. So what one left when it
 * was killed is told from what another is at this moment writing, and only the former is removed.
 */

import { sep } from 'node:path';
import { systemRandom } from '@holdfast/core/contract';
import type { FileSystem } from './file-system.ts';
import { type Processes, processOfText, processText } from './processes.ts';

const DIGITS = 16;
const REST = new RegExp(`^[0-9a-f]{${DIGITS}}(?:\\.([0-9][0-9a-f-]+))?(\\.[a-z]+(?:-0)?)?$`);

/** A name that no other has. It tells whose it is, where processes can be told apart. */
export async function ownedName(prefix: string, processes: Processes): Promise<string> {
  const self = await processes.self();
  return `${prefix}${systemRandom.hex(DIGITS)}${self === null ? '' : `.${processText(self)}`}`;
}

export interface OwnedEntry {
  readonly name: string;
  /** What follows the name that `ownedName` made: nothing, or a dot and a word. */
  readonly ending: string;
  /**
   * False also where that cannot be known: on another machine, in another container, without /proc.
   */
  readonly isAbandoned: boolean;
}

/**
 * The entries of a directory that begin with `prefix` and have such a name, whatever their endings.
 * Errors are those of the system calls.
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
 * Removes what such processes were making below names without an ending. What cannot be removed
 * takes room, and is left.
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
