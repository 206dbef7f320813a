/** The command as users get it: one file and its chunks, without sources. */

import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const CLI = fileURLToPath(new URL('../../packages/cli', import.meta.url));

/** The directory of the chunks that `PACKED` loads. */
export const PACKED_DIRECTORY = `${CLI}/dist`;

/** The program and its arguments before the command. */
export const PACKED: readonly string[] = [process.execPath, `${PACKED_DIRECTORY}/holdfast.mjs`];

/**
 * Packs the command from these sources. A command that starts meanwhile finds either the old or the
 * new version.
 */
export async function pack(): Promise<void> {
  await promisify(execFile)(process.execPath, [`${CLI}/build.mjs`]);
}

/** Packs the command and the library of the package `holdfast` into a directory. */
export async function packPackage(directory: string): Promise<void> {
  await promisify(execFile)(process.execPath, [`${CLI}/build.mjs`, '--package', directory]);
}
