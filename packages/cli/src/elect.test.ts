/** `elect`: output and exit status, and when another trainer is elected. */

import { ManualClock } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { callInProcess } from './in-process.ts';

let count = 0;
const newUri = () => `memory://elect-${count++}`;

/**
 * One call in this process. Each has its own clock, like a process, which advances while the call
 * waits.
 */
async function elect(args: readonly string[], signal = new AbortController().signal) {
  return callInProcess(['elect', ...args], { clock: new ManualClock({ autoAdvance: true }), signal });
}

async function asJson(args: readonly string[]) {
  const { code, stdout } = await elect([...args, '--json']);
  return { code, ...JSON.parse(stdout) };
}

describe('elect', () => {
  test('the first is elected, another is not, and the first may ask again', async () => {
    const uri = newUri();
    expect(await elect([uri, '--id', 't0', '--for', '10m'])).toEqual({
      code: 0,
      stdout: 'elected  t0 until 2026-01-01 00:10:00 UTC\n',
      stderr: '',
    });
    expect(await elect([uri, '--id', 't1', '--for', '10m'])).toEqual({
      code: 7,
      stdout:
        'not elected  t0 is elected, for 10 min at a time\n' +
        `  if that trainer is gone: \`holdfast elect ${uri} --id t1 --for 10m --wait 755s\` replaces it\n`,
      stderr: '',
    });
    expect(await asJson([uri, '--id', 't0', '--for', '1500ms'])).toEqual({
      code: 0,
      uri,
      id: 't0',
      isElected: true,
      until: '2026-01-01T00:00:01.500Z',
      holder: { id: 't0', forMs: 1500 },
      waitedMs: 0,
    });
    expect(await asJson([uri, '--id', 't1', '--for', '7d'])).toMatchObject({
      code: 7,
      isElected: false,
      until: null,
      holder: { id: 't0', forMs: 1500 },
    });
  });

  test('--wait: another is elected once it has seen no renewal for 1.25 times as long', async () => {
    const uri = newUri();
    await elect([uri, '--id', 't0', '--for', '10m']);
    const short = await elect([uri, '--id', 't1', '--for', '1m', '--wait', '12m']);
    expect(short).toMatchObject({ code: 7, stderr: 'waiting   t0 is elected, for 10 min at a time\n' });
    const long = await asJson([uri, '--id', 't1', '--for', '1m', '--wait', '13m']);
    expect(long).toMatchObject({ code: 0, isElected: true, holder: { id: 't1', forMs: 60_000 } });
    expect(long.waitedMs).toBeGreaterThanOrEqual(750_000);
    expect(long.waitedMs).toBeLessThanOrEqual(755_000);
  });

  test('--quiet says nothing: the exit status does', async () => {
    const uri = newUri();
    const quiet = (id: string) => elect([uri, '--id', id, '--for', '1m', '--quiet']);
    expect(await quiet('t0')).toEqual({ code: 0, stdout: '', stderr: '' });
    expect(await quiet('t1')).toEqual({ code: 7, stdout: '', stderr: '' });
  });

  test('Ctrl-C ends the wait with 130', async () => {
    const uri = newUri();
    await elect([uri, '--id', 't0', '--for', '7d']);
    const stop = new AbortController();
    stop.abort();
    const ended = await elect([uri, '--id', 't1', '--for', '1m', '--wait', '30d'], stop.signal);
    expect([ended.code, ended.stdout]).toEqual([130, '']);
  });

  test.each([
    [['--for', '1m'], 'elect needs --id'],
    [['--id', 't0'], 'elect needs --for'],
    [['--id', '', '--for', '1m'], 'trainer id is ""; it takes text'],
    [['--id', '../t0', '--for', '1m'], 'is not a directory name: it takes 1 to 255 bytes'],
    [['--id', 't0', '--for', '0'], '--for: "0" is out of range; it takes 1ms to 7d'],
    [['--id', 't0', '--for', '8d'], '--for: "8d" is out of range; it takes 1ms to 7d'],
    [['--id', 't0', '--for', '10'], '--for: "10" has no unit'],
    [['--id', 't0', '--for', '1m', '--wait', '5ms'], '--wait: "5ms" is too short'],
  ])('%j is refused with 2: %s', async (args, words) => {
    const ended = await elect([newUri(), ...args]);
    expect([ended.code, ended.stdout]).toEqual([2, '']);
    expect(ended.stderr).toContain(words);
  });
});
