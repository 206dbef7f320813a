/** `--minio`, `--gcs`, `--azure`: the demo once more, on a server that the repository's tests know how to get and start. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:os';
import { fileURLToPath } from 'node:url';

/** By flag. */
export const SERVERS = {
  minio: { title: 'MinIO', ownUri: 's3://bucket/demo' },
  gcs: { title: 'fake-gcs-server', ownUri: 'gs://bucket/demo' },
  azure: { title: 'Azurite', ownUri: 'az://account/container/demo' },
} as const;

export type ServerName = keyof typeof SERVERS;

export const SERVER_NAMES = Object.keys(SERVERS) as readonly ServerName[];

const RUN_SERVER = fileURLToPath(new URL('../../test/servers/run-server.ts', import.meta.url));
const DEMO = fileURLToPath(new URL('./main.ts', import.meta.url));
const NODE = [process.execPath, '--conditions=holdfast-source'] as const;

/** Nothing changes but the URI. `args`: those of this call, the server's flag among them. Resolves to the exit status. */
export async function runOnServer(name: ServerName, args: readonly string[]): Promise<number> {
  const [node, ...words] = [...NODE, RUN_SERVER, name, ...NODE, DEMO, ...args, '--uri', '{}'];
  const child = spawn(node, words, { stdio: 'inherit' });
  // The demo there ends its processes, and then the server ends. A terminal's Ctrl-C has reached it already; another signal has not.
  for (const signalName of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) {
    process.on(signalName, () => child.kill('SIGTERM'));
  }
  const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
  return signal === null ? (code ?? 1) : 128 + constants.signals[signal];
}
