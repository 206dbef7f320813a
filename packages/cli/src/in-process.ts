/**
 * The command line in this process, for tests that call it often. Nothing of the surroundings
 * reaches it.
 */

import { type Clock, systemClock } from '@holdfast/core/contract';
import { runCli } from './run-cli.ts';

export interface Called {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** `signal`: fires as Ctrl-C does. */
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
      dispose: () => undefined,
    }),
  });
  return { code, stdout, stderr };
}

export function cli(...argv: string[]): Promise<Called> {
  return callInProcess(argv);
}

/** What a call prints with `--json`. */
export async function asJson(...args: string[]) {
  return JSON.parse((await cli(...args, '--json')).stdout);
}
