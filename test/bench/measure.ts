/** Running a command and counting its cost. */

import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export interface Cost {
  readonly wallMs: number;
  /** Of the call itself; 0 where it was not measured. */
  readonly cpuMs: number;
  readonly peakRssBytes: number;
}

/** Runs a program to its end; rejects unless it exits with 0. Resolves to what it wrote to stdout. */
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

/** A shell command, by the clock on the wall. */
export async function timeCommand(command: string, args: readonly string[]): Promise<Cost> {
  const start = performance.now();
  await run(command, args);
  return { wallMs: performance.now() - start, cpuMs: 0, peakRssBytes: 0 };
}

/** A save or restore by a process of its own. */
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
