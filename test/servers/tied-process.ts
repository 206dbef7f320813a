/** Programs that end when the process that started them ends, in whatever way. */

import { type ChildProcess, spawn } from 'node:child_process';
import type { Writable } from 'node:stream';

export interface TiedProcess {
  readonly child: ChildProcess;
  /** Process id of the program itself. */
  readonly pid: number;
  /** Resolves when the program has ended, with words for how it ended. Never rejects. */
  readonly ended: Promise<string>;
  /** Ends the program with SIGKILL. Resolves when it has ended. Safe to call again. */
  kill(): Promise<void>;
}

export interface TiedOptions {
  readonly env: Readonly<Record<string, string>>;
  /** Receives standard output and standard error. */
  readonly outputFd: number;
  /** Removed if this process dies before the program has ended. */
  readonly directory: string;
}

/**
 * The shell becomes the program, so its process id is the program's. A reader process stays behind
 * on a pipe that only the starting process can write to. A line on the pipe says that the program
 * has ended. The end of the pipe says that the starting process has ended.
 */
const SCRIPT = `
directory=$1
shift
{ IFS= read -r _ <&3 || { kill -9 $$; sleep 1; rm -rf -- "$directory"; }; } &
exec "$@" 3<&-
`;

/** A missing program ends with status 127, and the output holds the shell's message. */
export function spawnTied(words: readonly string[], options: TiedOptions): TiedProcess {
  const { env, outputFd, directory } = options;
  const child = spawn('/bin/sh', ['-c', SCRIPT, 'sh', directory, ...words], {
    env,
    // Relative paths of the program then lie in the directory that is removed.
    cwd: directory,
    // A separate process group: a Ctrl-C that stops the test run must not stop the reader that
    // cleans up.
    detached: true,
    stdio: ['ignore', outputFd, outputFd, 'pipe'],
  });
  const pipe = child.stdio[3] as Writable;
  // The reader may be killed first, when all processes of a machine are ended.
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
