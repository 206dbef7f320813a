/**
 * Starts a MinIO with an empty bucket, runs a command on it, and takes it away again.
 *
 *   node --conditions=holdfast-source test/servers/run-minio.ts [--tls] [COMMAND ARGUMENT…]
 *
 * In the arguments, `{}` stands for the URI of a run in the bucket. The command has the credentials in its environment. Without a
 * command it says what a shell needs, and waits for Ctrl-C.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:os';
import { ServerUnavailable } from './go-program.ts';
import { newBucketOf, type TestBucket } from './s3-access.ts';
import { type S3Server, startMinio } from './s3-servers.ts';

/** Resolves to its exit status. */
async function run(words: readonly string[], { uri, env }: TestBucket): Promise<number> {
  const [program = '', ...args] = words.map((word) => word.replaceAll('{}', uri));
  const child = spawn(program, args, { stdio: 'inherit', env: { ...process.env, ...env } });
  // A Ctrl-C reaches the command too, which decides what it means.
  process.on('SIGINT', () => undefined);
  process.on('SIGTERM', (signal) => child.kill(signal));
  const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
  return signal === null ? (code ?? 1) : 128 + constants.signals[signal];
}

async function waitForSignal({ uri, env }: TestBucket, { pid, logPath }: S3Server): Promise<number> {
  // Before anything is said: whoever reads it may answer at once.
  const signalled = Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
  for (const [name, value] of Object.entries(env)) console.log(`export ${name}=${value}`);
  console.log(`export HOLDFAST_TEST_S3='${uri}'`);
  console.log(`# process ${pid}, log ${logPath}; Ctrl-C ends it`);
  await signalled;
  return 0;
}

async function main(args: readonly string[]): Promise<number> {
  const tls = args[0] === '--tls';
  const words = tls ? args.slice(1) : args;
  const server = await startMinio({ tls });
  try {
    const bucket = await newBucketOf(server);
    return words.length > 0 ? await run(words, bucket) : await waitForSignal(bucket, server);
  } finally {
    await server.stop();
  }
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  console.error(error instanceof ServerUnavailable ? error.message : error);
  process.exitCode = 1;
}
