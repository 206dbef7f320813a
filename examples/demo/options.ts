/** The command-line options of the demo. */

import { mkdir, mkdtemp, readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { openStore } from '@holdfast/stores';
import { DemoFailure } from './checks.ts';
import { SERVER_NAMES, type ServerName } from './on-server.ts';

export const USAGE = `npm run demo -- [--size 64MiB] [--steps 150] [--dir DIR] [--uri URI | --minio | --gcs | --azure]

  --size    size of the model with the optimizer's state, 4MiB to 1GiB; default 64MiB. The demo saves it ten times
  --steps   updates from one checkpoint to the next, an even number from 20 on; default 150
  --dir     where to put the store and the exported model: a new or empty directory;
            default: a new one for temporary files
  --uri     put the store there instead, such as s3://bucket/demo: a place where nothing is yet
  --minio   put it on a MinIO that is started for it, and is gone when the demo ends
  --gcs     the same on a fake-gcs-server, which keeps all of it in memory: 1 GiB at the default size
  --azure   the same on an Azurite

  --torture-others   another story: failures that happen to other tools and to Holdfast (docs/why.md)
`;

const UNITS: Readonly<Record<string, number>> = { MiB: 2 ** 20, GiB: 2 ** 30 };

export interface DemoOptions {
  readonly sizeBytes: number;
  readonly checkpointSteps: number;
  /**
   * Holds the exported model, and the store if no URI was given. It is absolute, exists and is
   * empty.
   */
  readonly directory: string;
  /** The URI of the run, which does not exist yet. */
  readonly uri: string;
  /**
   * `directory`: below `directory`. `uri`: at the given URI. A server name: at the given URI, on a
   * server that ends with the demo.
   */
  readonly storeIsIn: 'directory' | 'uri' | ServerName;
}

export type Wish =
  | { readonly type: 'help' }
  | { readonly type: 'torture others' }
  /** Start the demo again with `--uri` on this server. */
  | { readonly type: 'start server'; readonly name: ServerName }
  | { readonly type: 'demo'; readonly options: DemoOptions };

/** Rejects with `DemoFailure`, or with the error of the store for the URI. */
export async function readWish(args: readonly string[]): Promise<Wish> {
  const { dir, size, steps, uri, help, 'torture-others': others, ...flags } = parse(args);
  if (help) return { type: 'help' };
  if (others) return { type: 'torture others' };
  const sizeBytes = parseSize(size);
  const checkpointSteps = parseSteps(steps);
  const server = chosenServer(flags);
  if (server !== undefined && uri === undefined) return { type: 'start server', name: server };
  if (uri !== undefined) await requireEmptyStore(uri);
  const directory = await emptyDirectory(dir);
  const options: DemoOptions = {
    sizeBytes,
    checkpointSteps,
    directory,
    uri: uri ?? pathToFileURL(join(directory, 'run')).href,
    storeIsIn: server ?? (uri === undefined ? 'directory' : 'uri'),
  };
  return { type: 'demo', options };
}

function parse(args: readonly string[]) {
  try {
    const options = {
      dir: { type: 'string' },
      size: { type: 'string', default: '64MiB' },
      steps: { type: 'string', default: '150' },
      uri: { type: 'string' },
      minio: { type: 'boolean', default: false },
      gcs: { type: 'boolean', default: false },
      azure: { type: 'boolean', default: false },
      'torture-others': { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    } as const;
    return parseArgs({ args: [...args], options }).values;
  } catch (error) {
    throw new DemoFailure(`${(error as Error).message}\n\n${USAGE}`);
  }
}

function chosenServer(flags: Readonly<Record<ServerName, boolean>>): ServerName | undefined {
  const [chosen, other] = SERVER_NAMES.filter((name) => flags[name]);
  if (other === undefined) return chosen;
  throw new DemoFailure(
    `--${chosen} and --${other} are two servers, and the story has one store\n\n${USAGE}`,
  );
}

function parseSize(text: string): number {
  const [, digits, unit] = /^(\d+)(MiB|GiB)$/.exec(text) ?? [];
  const bytes = Number(digits) * (UNITS[unit ?? ''] ?? Number.NaN);
  if (bytes >= 4 * 2 ** 20 && bytes <= 2 ** 30) return bytes;
  throw new DemoFailure(`--size ${text} is not a size from 4MiB to 1GiB\n\n${USAGE}`);
}

/** Each of two trainers does half of the steps. */
function parseSteps(text: string): number {
  const steps = /^\d{1,6}$/.test(text) ? Number(text) : Number.NaN;
  if (steps >= 20 && steps % 2 === 0) return steps;
  throw new DemoFailure(`--steps ${text} is not an even number from 20 to 999998\n\n${USAGE}`);
}

async function emptyDirectory(given: string | undefined): Promise<string> {
  if (given === undefined) return mkdtemp(join(tmpdir(), 'holdfast-demo-'));
  const directory = resolve(given);
  await mkdir(directory, { recursive: true });
  if ((await readdir(directory)).length === 0) return directory;
  throw new DemoFailure(`${directory} is not empty: give --dir a new or empty directory`);
}

/** Protects existing data: the demo must not overwrite it, and the story needs an empty store. */
async function requireEmptyStore(uri: string): Promise<void> {
  if (/^memory:/i.test(uri)) {
    throw new DemoFailure(
      `${uri} is the memory of one process, and the demo has several: give --uri a file://, s3://, gs:// or az:// URI`,
    );
  }
  const store = await openStore(uri, process.env);
  try {
    for await (const { objects } of store.list('')) {
      if (objects.length > 0)
        throw new DemoFailure(
          `${uri} is not empty: give --uri a place where nothing is yet, such as ${uri}/demo`,
        );
    }
  } finally {
    await store.close();
  }
}
