import { type ChildProcess, fork } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * Node's compile cache. A dozen processes run the same two programs, so each program is compiled
 * only once.
 */
const COMPILE_CACHE = join(tmpdir(), 'node-compile-cache');

const running = new Set<ChildProcess>();

/**
 * Kills every process that the demo started, also frozen ones. The demo calls it at its end,
 * whatever the reason for the end.
 */
export function killAll(): void {
  for (const child of running) child.kill('SIGKILL');
}

/** A process of the job. It receives commands and sends reports. */
export class Child<Command extends object, Report extends { readonly type: string }> {
  /** Shown to users. */
  readonly name: string;
  /** Resolves when the process has ended. */
  readonly died: Promise<void>;
  readonly #child: ChildProcess;

  /** `script` is a file in this directory. The process starts with `setup`. */
  constructor(name: string, script: string, setup: object) {
    this.name = name;
    const path = fileURLToPath(new URL(script, import.meta.url));
    // Detached, so that Ctrl-C in a terminal reaches only the demo. The demo ends its processes.
    this.#child = fork(path, [JSON.stringify(setup)], {
      detached: true,
      serialization: 'advanced',
      env: { NODE_COMPILE_CACHE: COMPILE_CACHE, ...process.env },
    });
    running.add(this.#child);
    this.died = new Promise((resolve) => {
      const isGone = () => {
        running.delete(this.#child);
        resolve();
      };
      this.#child.once('exit', isGone);
      this.#child.once('error', isGone); // the process could not be started
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  listen(listener: (report: Report) => void): void {
    this.#child.on('message', (message) => listener(message as Report));
  }

  send(command: Command): void {
    this.#child.send(command, () => undefined); // on an error the process died, and `died` resolves
  }

  /** The next report of this type, or `null` if the process dies first. */
  async next<Type extends Report['type']>(type: Type): Promise<Extract<Report, { type: Type }> | null> {
    const { promise, resolve } = Promise.withResolvers<Extract<Report, { type: Type }> | null>();
    const listen = (message: unknown) => {
      const report = message as Extract<Report, { type: Type }>;
      if (report.type === type) resolve(report);
    };
    this.#child.on('message', listen);
    void this.died.then(() => resolve(null));
    try {
      return await promise;
    } finally {
      this.#child.off('message', listen);
    }
  }

  /** Sends SIGKILL: the process ends at once, between any two instructions. */
  kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    return this.died;
  }

  /** Sends SIGSTOP: the process stops and cannot notice it. */
  freeze(): void {
    this.#child.kill('SIGSTOP');
  }

  /** Sends SIGCONT. */
  thaw(): void {
    this.#child.kill('SIGCONT');
  }
}
