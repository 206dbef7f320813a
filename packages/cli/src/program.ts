/** Runs the command line in its process, from its arguments to its exit status. */

import { systemClock } from '@holdfast/core/contract';
import packageJson from '../package.json' with { type: 'json' };
import { askAtTerminal } from './confirm.ts';
import type { EarlySignals } from './early-signals.ts';
import { endProcess } from './end-process.ts';
import { listenForInterrupt } from './interrupt.ts';
import { logLine } from './messages.ts';
import { runCli, wantsJsonLog } from './run-cli.ts';
import type { Environment } from './sourced.ts';

/** A command that has succeeded and could not say so ends as an error of no other kind does. */
const OUTPUT_LOST = 1;

/** Ends the process. */
export async function runProgram(env: Environment, early: EarlySignals): Promise<void> {
  // A message that cannot be written is lost, and the command continues: a full disk below a log
  // must not end a save. A result that cannot be written is told at the end. A reader that closes
  // early (`holdfast list … | head -1`) is not an error.
  let resultLost: NodeJS.ErrnoException | undefined;
  process.stderr.on('error', () => undefined);
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') resultLost ??= error;
  });

  const argv = process.argv.slice(2);
  process.exitCode = await runCli(argv, {
    env,
    stdout: process.stdout,
    stderr: process.stderr,
    clock: systemClock,
    programVersion: packageJson.version,
    ask: process.stdin.isTTY === true && process.stderr.isTTY === true ? askAtTerminal : null,
    listenForInterrupt: (onFirst) => listenForInterrupt(onFirst, { early }),
  });

  // Wait until all output has reached the pipe. A signal ends the wait for a reader that takes
  // none. Do not wait for leftovers of a library, such as a process that was to provide
  // credentials.
  const signalled = new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, resolve);
  });
  const written = [process.stdout, process.stderr].map(
    (stream) => new Promise<void>((resolve) => stream.write('', () => resolve())),
  );
  await Promise.race([Promise.all(written), signalled]);
  if (resultLost !== undefined && process.exitCode === 0) {
    const message = `standard output cannot be written: ${resultLost.message}`;
    const advice = 'the command itself has succeeded';
    const line = wantsJsonLog(argv, env)
      ? logLine(systemClock, 'error', message, { exitCode: OUTPUT_LOST, advice: [advice] })
      : `holdfast: ${message}\n  ${advice}`;
    process.stderr.write(`${line}\n`);
    process.exitCode = OUTPUT_LOST;
  }
  endProcess();
}
