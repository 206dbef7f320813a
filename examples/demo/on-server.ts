/**
 * `--minio`, `--gcs`, `--azure`: run the demo again on a server that the repository's tests can
 * install and start.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:os';
import { fileURLToPath } from 'node:url';

/** The servers by flag. */
export const SERVERS = {
  minio: { title: 'MinIO', ownUri: 's3://bucket/demo' },
  gcs: { title: 'fake-gcs-server', ownUri: 'gs://bucket/demo' },
  azure: { title: 'Azurite', ownUri: 'az://account/container/demo' },
} as const;

export type ServerName = keyof typeof SERVERS;

export const SERVER_NAMES = Object.keys(SERVERS) as readonly ServerName[];

const RUN_SERVER = fileURLToPath(new URL('../../test/servers/run-server.ts', import.meta.url));
const DEMO = fileURLToPath(new URL('./main.ts', import.meta.url));
const OTHERS = fileURLToPath(new URL('../../test/peers/main.ts', import.meta.url));
const NODE = [process.execPath, '--conditions=holdfast-source'] as const;

/**
 * Runs the demo with a URI on the server. `args` are the arguments of this call, including the
 * server's flag. Resolves to the exit status.
 */
export function runOnServer(name: ServerName, args: readonly string[]): Promise<number> {
  return spawnOnServer(name, [DEMO, ...args, '--uri', '{}']);
}

/** `--torture-others`: lets the same failures happen to other tools and to Holdfast, on a MinIO. */
export function tortureOthers(): Promise<number> {
  return spawnOnServer('minio', [OTHERS, '{}']);
}

async function spawnOnServer(name: ServerName, program: readonly string[]): Promise<number> {
  const [node, ...words] = [...NODE, RUN_SERVER, name, ...NODE, ...program];
  const child = spawn(node, words, { stdio: 'inherit' });
  // The child demo ends its processes first, then the server ends. Ctrl-C in a terminal has reached
  // the child already. Other signals have not, so the child gets SIGTERM.
  for (const signalName of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) {
    process.on(signalName, () => child.kill('SIGTERM'));
  }
  const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
  return signal === null ? (code ?? 1) : 128 + constants.signals[signal];
}
