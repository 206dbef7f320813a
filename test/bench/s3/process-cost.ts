/** What a process and all its children cost, as the kernel counts it. */

import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export interface Command {
  readonly program: string;
  readonly args: readonly string[];
  /** All of it: nothing else of our own environment reaches the program. */
  readonly env: Readonly<Record<string, string>>;
}

export interface ProcessCost {
  readonly wallMs: number;
  /** User and system time of the process and every descendant. */
  readonly userMs: number;
  readonly systemMs: number;
  /** Of the largest process of the tree. */
  readonly peakRssBytes: number;
}

export interface Measured {
  readonly cost: ProcessCost;
  readonly stdout: string;
}

/** A program of its own that hangs would stop the whole series. */
const DEADLINE_MS = 30 * 60_000;
const OUTPUT_CHARS_MAX = 4000;

const SCRIPT = fileURLToPath(new URL('./cost.py', import.meta.url));

/**
 * Runs a program to its end; rejects unless it exits with 0, with the end of what it printed. Needs `python3` on the PATH: Node cannot
 * ask the kernel for the usage of children.
 */
export async function measureProcess(command: Command): Promise<Measured> {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-cost-'));
  const out = join(directory, 'cost.json');
  try {
    const stdout = await runToEnd({
      ...command,
      program: 'python3',
      // -I: neither the environment nor the directory changes what the script imports.
      args: ['-I', SCRIPT, out, command.program, ...command.args],
    });
    return { cost: JSON.parse(readFileSync(out, 'utf8')) as ProcessCost, stdout };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Resolves to what the program wrote to stdout; rejects unless it exits with 0. */
export function runToEnd({ program, args, env }: Command): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr = (stderr + text).slice(-OUTPUT_CHARS_MAX);
    });
    const deadline = setTimeout(() => {
      // The group: the program is a child of the one that measures it.
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
    }, DEADLINE_MS);
    child.on('error', reject);
    child.on('close', (code, signal) => {
      clearTimeout(deadline);
      if (code === 0) resolve(stdout);
      else reject(new Error(`it ended with ${signal ?? code}: ${stdout.slice(-OUTPUT_CHARS_MAX)}${stderr}`));
    });
  });
}

// Linux reports process times in hundredths of a second, whatever the kernel's own tick is.
const MS_PER_TICK = 10;

/** User and system time so far of a running process, all threads, to 10 ms. */
export function cpuMsOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The name, in parentheses, may hold spaces; after it, fields 3 and on.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * MS_PER_TICK;
}
