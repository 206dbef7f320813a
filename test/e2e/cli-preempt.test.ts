/** A machine is preempted: real saves, real signals, and `holdfast preempt`. */

import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { holdfast, newPlace, writeFiles } from './holdfast-process.ts';

const SLOW = ['--limit-rate', '2MiB/s', '--concurrency', '1'];

describe('SIGTERM to all processes of a job', () => {
  it('slow saves go on; preempt says what does not fit, or waits until it is durable', async () => {
    const place = await newPlace();
    const files = (name: string) => ({ [`${name}.large`]: randomBytes(3 * 1024 * 1024) });
    const save = async (
      writer: string,
      onStderr?: (text: string, kill: (signal: 'SIGTERM') => void) => void,
    ) => {
      const ckpt = await writeFiles(place, `of-${writer[0]}`, files(writer[0] as string));
      const position = ['--version', '7', '--attempt', 'job', '--writer', writer];
      const env = { HOLDFAST_AFTER_SIGTERM: '60s' };
      return holdfast(['save', ckpt, place.uri, ...position, ...SLOW], {
        env,
        ...(onStderr && { onStderr }),
      });
    };
    const preempt = (deadline: string) =>
      holdfast(['preempt', place.uri, '--version', '7', '--deadline', deadline]);
    const rest = async () => {
      const patient = preempt('60s');
      const soon = await preempt('2s');
      return { soon, second: await save('1/2'), patient: await patient };
    };
    let beside: ReturnType<typeof rest> | undefined;
    const first = await save('0/2', (text, kill) => {
      if (beside !== undefined || !text.includes('version 7 →')) return;
      kill('SIGTERM');
      beside = rest();
    });
    const { soon, second, patient } = (await beside) ?? {};
    expect(first.stderr).toContain('holdfast: SIGTERM: the save continues for up to 60 s; Ctrl-C ends it\n');
    expect([first.code, second?.code]).toEqual([0, 0]);
    expect(soon).toMatchObject({ code: 3, stdout: '' });
    expect(soon?.stderr).toContain('holdfast: version 7 did not become durable within 2 s: ');
    expect(soon?.stderr).toContain('  the run has no checkpoint to load: all that was trained is lost\n');
    const durable = expect.stringMatching(/^durable {2,}version 7 {2,}6\.0 MiB in 2 files .* waited /);
    expect(patient).toMatchObject({ code: 0, stdout: durable });
  });

  it('a save that is not done when its time is up ends as it does without the option', async () => {
    const place = await newPlace();
    const ckpt = await writeFiles(place, 'ckpt', { 'a.bin': 'a' });
    const position = ['--version', '7', '--writer', '0/2', '--attempt', 'job'];
    let sent = 0;
    const ended = await holdfast(['save', ckpt, place.uri, ...position, '--after-sigterm', '1s'], {
      onStderr: (text, kill) => {
        if (sent < 2 && text.includes(sent === 0 ? 'delivered' : 'SIGTERM:')) {
          sent += 1;
          kill('SIGTERM');
        }
      },
    });
    expect([sent, ended.code, ended.stdout]).toEqual([2, 75, '']);
    expect(ended.stderr).toContain(
      'holdfast: stopped 1 s after SIGTERM; version 7 is not committed, but still can be',
    );
    expect(ended.stderr).toContain('\n  your files are safe in the store\n');
  });
});
