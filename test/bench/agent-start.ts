/** How long the agent takes to start, and the client to be imported. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { runToEnd } from './s3/process-cost.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const COMMAND = join(ROOT, 'packages/cli/dist/holdfast.mjs');
export const CLIENT = join(ROOT, 'python');

const LOG_CHARS_MAX = 4000;

/** Prints the time of the import, and with `connect`: its first use loads the rest. */
const IMPORT = `
import time
start = time.perf_counter()
import holdfast
imported = time.perf_counter()
holdfast.connect
print((imported - start) * 1000, (time.perf_counter() - start) * 1000)
`;

export interface StartedAgent {
  readonly pid: number;
  /** From the start of its process until it serves. */
  readonly startMs: number;
  end(): Promise<void>;
}

/** Its staging directory is in memory. */
export async function startAgent(socket: string, env: Record<string, string>): Promise<StartedAgent> {
  const stage = mkdtempSync('/dev/shm/holdfast-bench-');
  const args = [COMMAND, 'agent', '--socket', socket, '--stage', stage];
  const beganMs = performance.now();
  const agent = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  agent.stderr.on('data', (piece: Buffer) => {
    log = `${log}${piece.toString('utf8')}`.slice(-LOG_CHARS_MAX);
  });
  const ended = once(agent, 'exit').then(() => rmSync(stage, { recursive: true, force: true }));
  // It prints a line when it serves.
  const { done } = await createInterface({ input: agent.stdout })[Symbol.asyncIterator]().next();
  if (done || agent.pid === undefined) throw new Error(`the agent did not start: ${log}`);
  return {
    pid: agent.pid,
    startMs: performance.now() - beganMs,
    end: async () => {
      agent.kill('SIGKILL');
      await ended;
    },
  };
}

/** One after the other. The first of each fills caches and is not counted. */
export async function startTimes(
  { directory, env }: { readonly directory: string; readonly env: Record<string, string> },
  rounds: number,
): Promise<{ importMs: number[]; connectMs: number[]; startMs: number[] }> {
  const importMs: number[] = [];
  const connectMs: number[] = [];
  const startMs: number[] = [];
  const python = { ...env, PYTHONPATH: CLIENT, PYTHONPYCACHEPREFIX: join(directory, 'compiled') };
  mkdirSync(join(directory, 'start'), { recursive: true, mode: 0o700 });
  for (let round = 0; round <= rounds; round += 1) {
    const { stdout } = await runToEnd({ program: 'python3', args: ['-c', IMPORT], env: python });
    const agent = await startAgent(join(directory, 'start', 'agent.sock'), env);
    await agent.end();
    if (round === 0) continue;
    const [imported = Number.NaN, connected = Number.NaN] = stdout.split(' ').map(Number);
    importMs.push(imported);
    connectMs.push(connected);
    startMs.push(agent.startMs);
  }
  return { importMs, connectMs, startMs };
}
