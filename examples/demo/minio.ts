/** `--minio`: the demo once more, on a MinIO that the repository's tests know how to build and start. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:os';
import { fileURLToPath } from 'node:url';

const RUN_MINIO = fileURLToPath(new URL('../../test/servers/run-minio.ts', import.meta.url));
const DEMO = fileURLToPath(new URL('./main.ts', import.meta.url));
const NODE = [process.execPath, '--conditions=holdfast-source'] as const;

/** Nothing changes but the URI. `args`: those of this call, `--minio` among them. Resolves to the exit status. */
export async function runOnMinio(args: readonly string[]): Promise<number> {
  const [node, ...words] = [...NODE, RUN_MINIO, ...NODE, DEMO, ...args, '--uri', '{}'];
  const child = spawn(node, words, { stdio: 'inherit' });
  // The demo there ends its processes, and then MinIO ends. A terminal's Ctrl-C has reached it already; another signal has not.
  for (const name of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) {
    process.on(name, () => child.kill('SIGTERM'));
  }
  const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
  return signal === null ? (code ?? 1) : 128 + constants.signals[signal];
}
