/** A program in a separate process, such as one of this repository from its sources. */

import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

export interface Ended {
  /** `null` if a signal ended it. */
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export class Program {
  readonly ended: Promise<Ended>;
  readonly #child: ChildProcess;
  #stdout = '';
  #stderr = '';

  /**
   * `script` is a path from the root, or a program with its first arguments. `env` is added to the
   * environment of this process.
   */
  constructor(
    script: string | readonly string[],
    options: { args?: readonly string[]; env?: Record<string, string> } = {},
  ) {
    const { args = [], env = {} } = options;
    const words =
      typeof script === 'string' ? [process.execPath, '--conditions=holdfast-source', script] : script;
    this.#child = spawn(words[0] as string, [...words.slice(1), ...args], {
      cwd: ROOT,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.#stdout += text;
    });
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text;
    });
    this.ended = new Promise((resolve, reject) => {
      this.#child.once('error', reject);
      this.#child.once('close', (exitCode) =>
        resolve({ exitCode, stdout: this.#stdout, stderr: this.#stderr }),
      );
    });
  }

  get pid(): number {
    return this.#child.pid ?? Number.NaN;
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Resolves when its standard output matches. Rejects if it ends without a match. */
  async says(pattern: RegExp): Promise<RegExpExecArray> {
    return new Promise((resolve, reject) => {
      const look = () => {
        const match = pattern.exec(this.#stdout);
        if (match) resolve(match);
      };
      look();
      this.#child.stdout?.on('data', look);
      this.ended.then(
        ({ stdout, stderr }) => reject(new Error(`it ended without ${pattern}:\n${stdout}\n${stderr}`)),
        reject,
      );
    });
  }
}
