import { type ChildProcess, fork } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** A dozen processes run the same two programs: what one of them has compiled, the next ones need not. Node's own place for it. */
const COMPILE_CACHE = join(tmpdir(), 'node-compile-cache');

const running = new Set<ChildProcess>();

/** For the end of the demo, whatever its reason: no process that it started outlives it, a frozen one neither. */
export function killAll(): void {
  for (const child of running) child.kill('SIGKILL');
}

/** A process of the job: it is sent commands, and sends reports. */
export class Child<Command extends object, Report extends { readonly type: string }> {
  /** For people. */
  readonly name: string;
  /** Resolves when the process is gone. */
  readonly died: Promise<void>;
  readonly #child: ChildProcess;

  /** `script` stands beside this file; it is started with `setup`. */
  constructor(name: string, script: string, setup: object) {
    this.name = name;
    const path = fileURLToPath(new URL(script, import.meta.url));
    // Detached: a terminal's Ctrl-C reaches the demo alone, and the demo ends its processes.
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
      this.#child.once('error', isGone); // it could not even be started
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  listen(listener: (report: Report) => void): void {
    this.#child.on('message', (message) => listener(message as Report));
  }

  send(command: Command): void {
    this.#child.send(command, () => undefined); // an error means that the process died, and `died` tells
  }

  /** The next report of this type; `null` if the process dies first. */
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

  /** SIGKILL: from one instruction to the next, the process is gone. */
  kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    return this.died;
  }

  /** SIGSTOP: the process does nothing, and does not know it. */
  freeze(): void {
    this.#child.kill('SIGSTOP');
  }

  /** SIGCONT. */
  thaw(): void {
    this.#child.kill('SIGCONT');
  }
}
