/**
 * The command as users get it: one file and its chunks, without sources. Also programs that tests
 * start often: packed, they start in a third of the time.
 */

import { execFile } from 'node:child_process';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const CLI = fileURLToPath(new URL('../../packages/cli', import.meta.url));

/** The directory of the chunks that `PACKED` loads. */
export const PACKED_DIRECTORY = `${CLI}/dist`;

/** The program and its arguments before the command. */
export const PACKED: readonly string[] = [process.execPath, `${PACKED_DIRECTORY}/holdfast.mjs`];

const PROGRAMS = [
  'test/crash/writer-process.ts',
  'test/cloud/collector.ts',
  'packages/stores/src/open-store.ts',
] as const;
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PROGRAMS_DIRECTORY = `${ROOT}/node_modules/.cache/holdfast-programs`;

/** Path of the packed form of a program. */
export function packedProgram(path: (typeof PROGRAMS)[number]): string {
  return `${PROGRAMS_DIRECTORY}/${basename(path, '.ts')}.mjs`;
}

/**
 * Packs the command and the programs from these sources. A process that starts meanwhile finds
 * either the old or the new version.
 */
export async function pack(): Promise<void> {
  const build = (...args: string[]) =>
    promisify(execFile)(process.execPath, [`${CLI}/build.mjs`, ...args], { cwd: ROOT });
  await Promise.all([build(), build('--programs', PROGRAMS_DIRECTORY, ...PROGRAMS)]);
}

/** Packs the command and the library of the package `holdfast` into a directory. */
export async function packPackage(directory: string): Promise<void> {
  await promisify(execFile)(process.execPath, [`${CLI}/build.mjs`, '--package', directory]);
}
