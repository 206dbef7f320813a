/** The cost of a process and all its children, as the kernel counts it. */

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { Readable, type Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';

export interface Command {
  readonly program: string;
  readonly args: readonly string[];
  /** The complete environment. Nothing else of ours reaches the program. */
  readonly env: Readonly<Record<string, string>>;
}

export interface ProcessCost {
  readonly wallMs: number;
  /** User and system time of the process and every descendant. */
  readonly userMs: number;
  readonly systemMs: number;
  /** Peak of the largest process of the tree. */
  readonly peakRssBytes: number;
}

export interface Measured {
  readonly cost: ProcessCost;
  readonly stdout: string;
}

/** A program that hangs must not block the whole series. */
const DEADLINE_MS = 30 * 60_000;
const OUTPUT_CHARS_MAX = 4000;

const CLONE = fileURLToPath(new URL('../../../', import.meta.url));
const SCRIPT = fileURLToPath(new URL('./cost.py', import.meta.url));

/**
 * Runs a program to its end. Rejects unless it exits with 0, with the end of its output. Needs
 * `python3` on the PATH, because Node cannot query the kernel for the usage of children.
 */
export async function measureProcess({ program, args, env }: Command): Promise<Measured> {
  // -I isolates the script's imports from the environment and the directory.
  const words = ['-I', SCRIPT, program, ...args];
  const { stdout, cost } = await runToEnd({ program: 'python3', args: words, env });
  return { stdout, cost: JSON.parse(cost) as ProcessCost };
}

/**
 * Resolves to the program's output on stdout and on file descriptor 3. Rejects unless it exits with
 * 0.
 */
export function runToEnd({ program, args, env }: Command): Promise<{ stdout: string; cost: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'pipe', 'pipe'], detached: true });
    const [, stdout, stderr, cost] = child.stdio.map(collectText);
    const killGroup = () => {
      // Kill the group, because the program is a child of the measuring process.
      if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL');
    };
    const deadline = setTimeout(killGroup, DEADLINE_MS);
    // Ctrl-C does not reach another process group.
    process.on('exit', killGroup);
    child.on('error', reject);
    child.on('close', (code, signal) => {
      clearTimeout(deadline);
      process.off('exit', killGroup);
      const text = { stdout: stdout?.() ?? '', stderr: stderr?.() ?? '', cost: cost?.() ?? '' };
      if (code === 0) resolve(text);
      else {
        // It is published with the raw figures, which name no directory of a machine.
        const said = `${text.stdout}${text.stderr}`.replaceAll(CLONE, '');
        reject(new Error(`it ended with ${signal ?? code}: ${said}`));
      }
    });
  });
}

/** Returns a function that gives the end of the text so far. */
function collectText(stream: Readable | Writable | null | undefined): () => string {
  let text = '';
  if (stream instanceof Readable)
    stream.setEncoding('utf8').on('data', (piece: string) => {
      text = (text + piece).slice(-OUTPUT_CHARS_MAX);
    });
  return () => text;
}

// Linux reports process times in hundredths of a second for any kernel tick.
const MS_PER_TICK = 10;

/** User and system time so far of all threads of a running process, to 10 ms. */
export function cpuMsOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The name, in parentheses, may contain spaces. Fields 3 and on follow it.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * MS_PER_TICK;
}
