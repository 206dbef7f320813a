/** `--dir` and `--size`. */

import { mkdir, mkdtemp, readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { DemoFailure } from './checks.ts';

export const USAGE = `npm run demo -- [--size 256MiB] [--dir DIR]

  --size   size of the model, 4MiB to 16GiB; default 256MiB. The demo writes about six times as much
  --dir    where to put the store: a new or empty directory; default: a new one for temporary files
`;

const UNITS: Readonly<Record<string, number>> = { MiB: 2 ** 20, GiB: 2 ** 30 };

export interface DemoOptions {
  readonly sizeBytes: number;
  /** Absolute; it exists and is empty. */
  readonly directory: string;
}

/** `null`: help was asked for. */
export async function readOptions(args: readonly string[]): Promise<DemoOptions | null> {
  const { dir, size, help } = parse(args);
  if (help) return null;
  const sizeBytes = parseSize(size);
  return { sizeBytes, directory: await emptyDirectory(dir) };
}

function parse(args: readonly string[]) {
  try {
    const options = {
      dir: { type: 'string' },
      size: { type: 'string', default: '256MiB' },
      help: { type: 'boolean', short: 'h', default: false },
    } as const;
    return parseArgs({ args: [...args], options }).values;
  } catch (error) {
    throw new DemoFailure(`${(error as Error).message}\n\n${USAGE}`);
  }
}

function parseSize(text: string): number {
  const [, digits, unit] = /^(\d+)(MiB|GiB)$/.exec(text) ?? [];
  const bytes = Number(digits) * (UNITS[unit ?? ''] ?? Number.NaN);
  if (bytes >= 4 * 2 ** 20 && bytes <= 16 * 2 ** 30) return bytes;
  throw new DemoFailure(`--size ${text} is not a size from 4MiB to 16GiB\n\n${USAGE}`);
}

async function emptyDirectory(given: string | undefined): Promise<string> {
  if (given === undefined) return mkdtemp(join(tmpdir(), 'holdfast-demo-'));
  const directory = resolve(given);
  await mkdir(directory, { recursive: true });
  if ((await readdir(directory)).length === 0) return directory;
  throw new DemoFailure(`${directory} is not empty: give --dir a new or empty directory`);
}
