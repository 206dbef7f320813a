/** The command line in this process, for tests that call it often. */

import { cli } from '@holdfast/cli/internal/in-process';
import { expect } from 'vitest';

export { asJson, cli } from '@holdfast/cli/internal/in-process';

/** Expects this exit status, these words, and no result on stdout. */
export async function refused(code: number, words: string, ...args: string[]) {
  const ended = await cli(...args);
  expect([ended.code, ended.stdout]).toEqual([code, '']);
  expect(ended.stderr).toContain(words);
}
