import { sep } from 'node:path';
import { systemRandom } from '@holdfast/core/contract';
import { type FileSystem, type Processes, processOfText, processText } from '@holdfast/local-files';

const PREFIX = '.holdfast-';
const DIGITS = 16;
const WITH_OWNER = new RegExp(`^\\${PREFIX}[0-9a-f]{${DIGITS}}\\.(.+)$`);

/** A name for a checkpoint that is being written, which no reader takes for a number. It tells whose it is, where processes can be told apart. */
export async function newStagingName(processes: Processes): Promise<string> {
  const self = await processes.self();
  const owner = self === null ? '' : `.${processText(self)}`;
  return `${PREFIX}${systemRandom.hex(DIGITS)}${owner}`;
}

/** Removes what was being written by processes that are certainly gone. What cannot be removed takes room, and is left. */
export async function removeAbandoned(
  root: string,
  { fileSystem, processes }: { fileSystem: FileSystem; processes: Processes },
): Promise<void> {
  for (const { name } of await fileSystem.readdir(root)) {
    const text = name.toString('latin1');
    const owner = processOfText(WITH_OWNER.exec(text)?.[1] ?? '');
    if (owner === null || !(await processes.isCertainlyGone(owner))) continue;
    await fileSystem.removeAll(`${root}${sep}${text}`).catch(() => undefined);
  }
}
