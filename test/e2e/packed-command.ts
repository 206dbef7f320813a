/** The command as it is packed: one file and its pieces, without sources. */

import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const CLI = fileURLToPath(new URL('../../packages/cli', import.meta.url));

/** Where the pieces lie that `PACKED` loads. */
export const PACKED_DIRECTORY = `${CLI}/dist`;

/** The program and its arguments up to the command. */
export const PACKED: readonly string[] = [process.execPath, `${PACKED_DIRECTORY}/holdfast.mjs`];

/** A second or two, on a machine that has nothing else to do. */
export const PACK_TIMEOUT_MS = 60_000;

/** Packs the command of these sources; a command that starts meanwhile finds the old one or the new one. */
export async function pack(): Promise<void> {
  await promisify(execFile)(process.execPath, [`${CLI}/build.mjs`]);
}

/** Packs the command and the library of the package `holdfast` into a directory. */
export async function packPackage(directory: string): Promise<void> {
  await promisify(execFile)(process.execPath, [`${CLI}/build.mjs`, '--package', directory]);
}
