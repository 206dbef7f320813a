/**
 * Runs the command line in this process, for tests that call it often. It is isolated from the
 * environment.
 */

import { type Clock, systemClock } from '@holdfast/core/contract';
import { runCli } from './run-cli.ts';

export interface Called {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** `signal`: acts as Ctrl-C. */
export async function callInProcess(
  argv: readonly string[],
  {
    clock = systemClock,
    signal = new AbortController().signal,
  }: { readonly clock?: Clock; readonly signal?: AbortSignal } = {},
): Promise<Called> {
  let [stdout, stderr] = ['', ''];
  const code = await runCli(argv, {
    env: {},
    stdout: { write: (text) => (stdout += text) },
    stderr: { write: (text) => (stderr += text) },
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
