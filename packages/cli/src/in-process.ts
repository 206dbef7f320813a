/**
 * Runs the command line in this process, for tests that call it often. It is isolated from the
 * environment.
 */

import { type Clock, systemClock } from '@holdfast/core/contract';
import { runCli } from './run-cli.ts';
import type { Environment } from './sourced.ts';

export interface Called {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** `signal`: acts as Ctrl-C. `terminal`: standard error is a terminal of this size. */
export async function callInProcess(
  argv: readonly string[],
  {
    clock = systemClock,
    signal = new AbortController().signal,
    env = {},
    terminal,
  }: {
    readonly clock?: Clock;
    readonly signal?: AbortSignal;
    readonly env?: Environment;
    readonly terminal?: { readonly columns: number; readonly rows: number };
  } = {},
): Promise<Called> {
  let [stdout, stderr] = ['', ''];
  const code = await runCli(argv, {
    env,
    stdout: { write: (text) => (stdout += text) },
    stderr: { write: (text) => (stderr += text), ...(terminal && { isTTY: true, ...terminal }) },
    clock,
    programVersion: '1.2.3',
    ask: null,
    listenForInterrupt: () => ({
      signal,
      outlastSigterm: () => undefined,
      deliverEarly: () => undefined,
      dispose: () => undefined,
    }),
  });
  return { code, stdout, stderr };
}

export function cli(...argv: string[]): Promise<Called> {
  return callInProcess(argv);
}

/** Returns the output of a call with `--json`. */
export async function asJson(...args: string[]) {
  return JSON.parse((await cli(...args, '--json')).stdout);
}
