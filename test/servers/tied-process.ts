/** Programs that end with the process that started them, however that one ends. */

import { type ChildProcess, spawn } from 'node:child_process';
import type { Writable } from 'node:stream';

export interface TiedProcess {
  readonly child: ChildProcess;
  /** Of the program itself. */
  readonly pid: number;
  /** Resolves when it has ended, with words for how. Never rejects. */
  readonly ended: Promise<string>;
  /** Ends it with SIGKILL, and resolves when it has ended. Safe to call again. */
  kill(): Promise<void>;
}

export interface TiedOptions {
  readonly env: Readonly<Record<string, string>>;
  /** Gets standard output and standard error. */
  readonly outputFd: number;
  /** Removed if this process dies before the program has ended. */
  readonly directory: string;
}

/**
 * The shell becomes the program, so its process id is the program's. What stays behind reads a pipe that only the starting
 * process can write to: a line says that the program has ended, the end of the pipe that the starting process has.
 */
const SCRIPT = `
directory=$1
shift
{ IFS= read -r _ <&3 || { kill -9 $$; sleep 1; rm -rf -- "$directory"; }; } &
exec "$@" 3<&-
`;

/** A program that is not there ends with status 127, and the shell's words are in the output. */
export function spawnTied(words: readonly string[], options: TiedOptions): TiedProcess {
  const { env, outputFd, directory } = options;
  const child = spawn('/bin/sh', ['-c', SCRIPT, 'sh', directory, ...words], {
    env,
    // Relative paths of the program end up in what is removed.
    cwd: directory,
    // A group of its own: the Ctrl-C that stops a test run must not stop the one who tidies up.
    detached: true,
    stdio: ['ignore', outputFd, outputFd, 'pipe'],
  });
  const pipe = child.stdio[3] as Writable;
  // The reader can be killed first, by whoever ends all processes of a machine.
  pipe.on('error', () => pipe.destroy());
  const ended = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, signal) => {
      pipe.end('\n');
      resolve(signal ? `signal ${signal}` : `status ${code}`);
    });
  });
  const kill = async () => {
    child.kill('SIGKILL');
    await ended;
  };
  return { child, pid: child.pid ?? Number.NaN, ended, kill };
}
