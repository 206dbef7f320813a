/** A process whose lines are seen as they arrive, and which may be frozen. */

import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

/** Milliseconds of the clock that Python calls `time.monotonic`. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

export interface Frozen {
  readonly fromMs: number;
  untilMs: number;
}

export interface Ending {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly atMs: number;
}

export class WatchedProcess {
  readonly ended: Promise<Ending>;
  readonly frozen: Frozen[] = [];
  ending: Ending | undefined;
  /** A signal that ends it was sent. */
  isMeantToEnd = false;
  readonly #child: ChildProcess;

  constructor(
    words: readonly string[],
    {
      env,
      onLine,
    }: {
      readonly env: Readonly<Record<string, string>>;
      readonly onLine: (line: string, from: 'stdout' | 'stderr') => void;
    },
  ) {
    const [program, ...args] = words as [string, ...string[]];
    this.#child = spawn(program, args, {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const from of ['stdout', 'stderr'] as const)
      createInterface({ input: this.#child[from] as Readable }).on('line', (line) => onLine(line, from));
    this.ended = new Promise((resolve, reject) => {
      this.#child.once('error', reject);
      // All lines have arrived by then.
      this.#child.once('close', (exitCode, signal) => {
        this.ending = { exitCode, signal, atMs: monotonicMs() };
        this.#thaw();
        resolve(this.ending);
      });
    });
  }

  get isRunning(): boolean {
    return this.ending === undefined;
  }

  signal(signal: NodeJS.Signals): void {
    if (!this.isRunning) return;
    if (signal === 'SIGSTOP') this.frozen.push({ fromMs: monotonicMs(), untilMs: Number.POSITIVE_INFINITY });
    if (signal === 'SIGCONT') this.#thaw();
    if (signal === 'SIGKILL' || signal === 'SIGTERM') this.isMeantToEnd = true;
    this.#child.kill(signal);
  }

  async kill(): Promise<void> {
    this.signal('SIGKILL');
    await this.ended;
  }

  #thaw(): void {
    for (const each of this.frozen) each.untilMs = Math.min(each.untilMs, monotonicMs());
  }
}
