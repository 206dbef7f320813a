/** Writes archives whose bytes depend only on their files. */

import { execFile } from 'node:child_process';
import { basename, dirname } from 'node:path';
import { promisify } from 'node:util';

/** Any fixed time works. npm uses this one. */
const TIME = '1985-10-26 08:15:00Z';

/** Packs the directory, under its own name, into a gzipped archive. Needs GNU tar. */
export async function writeArchive(directory: string, file: string): Promise<void> {
  const flags = [
    '--sort=name',
    `--mtime=${TIME}`,
    '--owner=0',
    '--group=0',
    '--numeric-owner',
    '--mode=u+rw,go+rX,go-w',
  ];
  const words = [...flags, '-czf', file, '-C', dirname(directory), basename(directory)];
  await promisify(execFile)('tar', words);
}
