/** A signal that comes after the result is printed does not replace the exit status. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
// @boundaries-ignore packing compiles it
import { compiledCode, NATIVE_TITLE, prepareNativeCode } from '../../scripts/pack/native-code.ts';
import { ROOT } from '../artifacts/artifacts.ts';
import { PACKED, pack } from '../e2e/packed-command.ts';
import { describeOnServer, whyNone } from '../servers/server-suite.ts';

const ROUNDS = 10;

const why = await whyNone(
  NATIVE_TITLE,
  () => compiledCode(ROOT),
  async () => undefined,
);
const open = async () => {
  await prepareNativeCode(ROOT);
  await pack();
  return { stop: async () => undefined };
};

/** Sends the signal each millisecond from the first output on. */
async function endedWith(signal: 'SIGINT' | 'SIGTERM', words: readonly string[]): Promise<unknown[]> {
  const [program = '', ...args] = [...PACKED, ...words];
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'ignore'] });
  const ended = once(child, 'exit');
  await once(child.stdout, 'data');
  while (child.exitCode === null && child.signalCode === null) {
    child.kill(signal);
    await sleep(1);
  }
  return ended;
}

describeOnServer({ suite: 'native', name: NATIVE_TITLE, whyNone: why, open }, () => {
  test.each(['SIGINT', 'SIGTERM'] as const)(
    '%s after the result: the status is that of the result',
    async (signal) => {
      for (let round = 0; round < ROUNDS; round++) {
        expect(await endedWith(signal, ['list', 'memory://signals', '--json'])).toEqual([6, null]);
        expect(await endedWith(signal, ['version'])).toEqual([0, null]);
      }
    },
    120_000,
  );
});
