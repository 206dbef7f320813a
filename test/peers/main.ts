/**
 * Makes the failures of training jobs happen to other tools and to Holdfast: `npm run demo --
 * --torture-others`. Takes the URI of a run on an S3 server, and names of failures (default: all).
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startAgent } from '@holdfast/agent';
import { peersProgram } from '../python/peers-program.ts';
import { ServerUnavailable } from '../servers/cached-build.ts';

const TORTURE = fileURLToPath(new URL('./torture.py', import.meta.url));
const CLIENT = fileURLToPath(new URL('../../python', import.meta.url));

async function main(args: readonly string[]): Promise<number> {
  process.env['HOLDFAST_REQUIRE'] ??= 'frameworks';
  const python = await peersProgram();
  const directory = await mkdtemp(join(tmpdir(), 'torture-'));
  const socket = join(directory, 'agent.sock');
  const agent = await startAgent({
    ...{ socket, stage: join(directory, 'stage'), config: undefined },
    ...{ programVersion: '0.0.0', env: process.env },
    logger: { log: () => undefined },
  });
  try {
    const child = spawn(python, ['-B', '-W', 'ignore', TORTURE, ...args], {
      stdio: 'inherit',
      env: {
        ...process.env,
        ...{ PYTHONPATH: CLIENT, HOLDFAST_AGENT: socket },
        ...{ OMP_NUM_THREADS: '1', GLOO_SOCKET_IFNAME: 'lo', TMPDIR: directory },
      },
    });
    const [code] = (await once(child, 'exit')) as [number | null];
    return code ?? 1;
  } finally {
    await agent.stop(0);
    await rm(directory, { recursive: true, force: true });
  }
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof ServerUnavailable)) throw error;
  console.error(`holdfast: ${error.message}`);
  process.exitCode = 1;
}
