/**
 * Starts an object storage server with an empty bucket, runs a command on it, and stops and removes
 * it afterwards.
 *
 *   node --conditions=holdfast-source test/servers/run-server.ts minio|gcs|azure [--tls] \
 *     [COMMAND ARGUMENT…]
 *
 * In the arguments, `{}` stands for the URI of a run in the bucket. The command has the credentials
 * in its environment. Without a command, the program prints the settings for a shell and waits for
 * Ctrl-C. `--tls` is for MinIO.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:os';
import { newAzureContainer } from './azure-access.ts';
import { startAzurite } from './azure-server.ts';
import { ServerUnavailable } from './cached-build.ts';
import { newGcsBucket } from './gcs-access.ts';
import { startFakeGcs } from './gcs-server.ts';
import { newBucketOf } from './s3-access.ts';
import { startMinio } from './s3-servers.ts';
import type { RunningServer } from './start-server.ts';
import type { TestBucket } from './test-bucket.ts';

interface Place {
  readonly server: RunningServer;
  newBucket(): Promise<TestBucket>;
}

interface Kind {
  /** The variable that makes the tests run there. */
  readonly variable: string;
  start(tls: boolean): Promise<Place>;
}

class UsageError extends Error {}

const KINDS: Readonly<Record<string, Kind>> = {
  minio: {
    variable: 'HOLDFAST_TEST_S3',
    start: async (tls) => {
      const server = await startMinio({ tls });
      return { server, newBucket: () => newBucketOf(server) };
    },
  },
  gcs: {
    variable: 'HOLDFAST_TEST_GCS',
    start: async () => {
      const server = await startFakeGcs();
      return { server, newBucket: () => newGcsBucket(server.endpoint) };
    },
  },
  azure: {
    variable: 'HOLDFAST_TEST_AZURE',
    start: async () => {
      const server = await startAzurite();
      return { server, newBucket: () => newAzureContainer(server) };
    },
  },
};

/** Resolves to its exit status. */
async function run(words: readonly string[], { uri, env }: TestBucket): Promise<number> {
  const [program = '', ...args] = words.map((word) => word.replaceAll('{}', uri));
  const child = spawn(program, args, { stdio: 'inherit', env: { ...process.env, ...env } });
  // A Ctrl-C reaches the command too. The command decides what to do.
  process.on('SIGINT', () => undefined);
  process.on('SIGTERM', (signal) => child.kill(signal));
  const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
  return signal === null ? (code ?? 1) : 128 + constants.signals[signal];
}

async function waitForSignal(
  variable: string,
  { uri, env }: TestBucket,
  { pid, logPath }: RunningServer,
): Promise<number> {
  // Before anything is printed: a reader of the output may signal at once.
  const signalled = Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
  for (const [name, value] of Object.entries(env)) console.log(`export ${name}='${value}'`);
  console.log(`export ${variable}='${uri}'`);
  console.log(`# process ${pid}, log ${logPath}; Ctrl-C ends it`);
  await signalled;
  return 0;
}

async function main([name = '', ...rest]: readonly string[]): Promise<number> {
  const kind = Object.hasOwn(KINDS, name) ? KINDS[name] : undefined;
  if (kind === undefined)
    throw new UsageError(`"${name}" is no server; it is one of ${Object.keys(KINDS).join(', ')}`);
  const tls = rest[0] === '--tls';
  if (tls && name !== 'minio') throw new UsageError('--tls is for minio only');
  const words = tls ? rest.slice(1) : rest;
  const { server, newBucket } = await kind.start(tls);
  try {
    const bucket = await newBucket();
    return words.length > 0 ? await run(words, bucket) : await waitForSignal(kind.variable, bucket, server);
  } finally {
    await server.stop();
  }
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  const isPlain = error instanceof ServerUnavailable || error instanceof UsageError;
  console.error(isPlain ? error.message : error);
  process.exitCode = 1;
}
