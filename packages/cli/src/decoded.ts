/**
 * Finds names that are not valid UTF-8. Node replaces what it cannot decode, and the command would
 * then work with another file or directory.
 */

import { isUtf8 } from 'node:buffer';
import { readFileSync, readlinkSync } from 'node:fs';
import process from 'node:process';
import { CheckpointError } from '@holdfast/core/contract';
import { usageError } from './usage-error.ts';

/** What Node puts in the place of bytes that it cannot decode. A valid name may have it too. */
const REPLACEMENT = '\u{fffd}';

/** `InvalidArgument`: a word of the command line is not what the caller has written. */
export function assertArgumentsDecoded(argv: readonly string[]): void {
  const index = argv.findIndex((word) => word.includes(REPLACEMENT));
  if (index === -1 || isValid(() => readFileSync('/proc/self/cmdline'))) return;
  throw usageError(`argument ${index + 1} is not valid UTF-8`, [
    'rename the file or directory, or name it by a link whose name is valid',
  ]);
}

/** `InvalidArgument`: relative paths would lead to another directory. */
export function assertWorkingDirectoryDecoded(): void {
  if (!workingDirectory().includes(REPLACEMENT)) return;
  if (isValid(() => readlinkSync('/proc/self/cwd', { encoding: 'buffer' }))) return;
  throw new CheckpointError('InvalidArgument', 'the path of the working directory is not valid UTF-8', {
    context: { advice: ['change to another directory (cd), and run the command again'] },
  });
}

/** Empty if it is gone: the command says so if it needs it. */
function workingDirectory(): string {
  try {
    return process.cwd();
  } catch {
    return '';
  }
}

/** False also where the system does not tell. */
function isValid(read: () => Uint8Array): boolean {
  try {
    return isUtf8(read());
  } catch {
    return false;
  }
}
