/** The command line in this process, for tests that call it often. */

import { runCli } from '@holdfast/cli/internal/run-cli';
import { systemClock } from '@holdfast/core/contract';
import { expect } from 'vitest';

export async function cli(...argv: string[]) {
  let [stdout, stderr] = ['', ''];
  const code = await runCli(argv, {
    env: {},
    stdout: { write: (text: string) => (stdout += text) },
    stderr: { write: (text: string) => (stderr += text) },
    clock: systemClock,
    programVersion: '1.2.3',
    ask: null,
    listenForInterrupt: () => ({
      signal: new AbortController().signal,
      outlastSigterm: () => undefined,
      dispose: () => undefined,
    }),
  });
  return { code, stdout, stderr };
}

export async function asJson(...args: string[]) {
  const { stdout } = await cli(...args, '--json');
  return JSON.parse(stdout);
}

/** It ends with this status, says these words, and prints no result. */
export async function refused(code: number, words: string, ...args: string[]) {
  const ended = await cli(...args);
  expect([ended.code, ended.stdout]).toEqual([code, '']);
  expect(ended.stderr).toContain(words);
}
