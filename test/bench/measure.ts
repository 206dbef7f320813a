/** Runs a command and measures its cost. */

import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export interface Cost {
  readonly wallMs: number;
  /** CPU time of the call itself, or 0 if it was not measured. */
  readonly cpuMs: number;
  readonly peakRssBytes: number;
}

/** Runs a program to its end. Rejects unless it exits with 0. Resolves to its stdout. */
export function run(command: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (chunk) => {
      stdout += chunk;
    });
    child.stderr.on('data', (chunk) => {
      stderr += chunk;
    });
    child.on('error', reject);
    child.on('close', (code) => {
      if (code === 0) resolve(stdout);
      else reject(new Error(`${command} ${args.join(' ')} ended with ${code}: ${stderr}`));
    });
  });
}

/** Wall time of a shell command. */
export async function timeCommand(command: string, args: readonly string[]): Promise<Cost> {
  const start = performance.now();
  await run(command, args);
  return { wallMs: performance.now() - start, cpuMs: 0, peakRssBytes: 0 };
}

/** Cost of a save or restore in a separate process. */
export async function timeHoldfast(
  action: 'save' | 'restore',
  job: { uri: string; directory: string; times?: number },
): Promise<Cost> {
  const script = fileURLToPath(new URL('./run-one.ts', import.meta.url));
  const stdout = await run(process.execPath, [
    '--conditions=holdfast-source',
    script,
    action,
    JSON.stringify(job),
  ]);
  return JSON.parse(stdout) as Cost;
}
