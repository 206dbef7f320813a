/** What a preemption waits for after a notice, how long, and what it reports. */

import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { CheckpointError, type Logger } from '@holdfast/core/contract';
import { ManualClock } from '@holdfast/testkit';
import { Preemption, type PreemptionOptions } from '@holdfast/training';
import { afterEach, describe, expect, it, onTestFinished, test } from 'vitest';
import { ScriptedSaver } from './scripted-saver.ts';

let logged: string[] = [];

const logger: Logger = { log: (level, message) => logged.push(`${level}: ${message}`) };

afterEach(() => {
  logged = [];
});

interface Scene {
  readonly saver: ScriptedSaver;
  readonly clock: ManualClock;
  readonly preemption: Preemption;
}

function scene(options: Partial<PreemptionOptions> = {}): Scene {
  const saver = new ScriptedSaver();
  const clock = new ManualClock();
  const preemption = new Preemption({ saver, deadlineMs: 25_000, signals: [], clock, logger, ...options });
  onTestFinished(() => preemption[Symbol.dispose]());
  return { saver, clock, preemption };
}

/** A store that never answers. */
const silent = () => new Promise<never>(() => undefined);

describe('a save in flight', () => {
  it('fits: it is waited for, as fast as it goes, and is the newest durable one', async () => {
    const { saver, clock, preemption } = scene();
    saver.begin(7n);
    preemption.request();
    expect(saver.throttleCalls).toEqual(['max null', 'resume']);
    await clock.advance(24_000);
    expect(preemption.report).toBeNull();
    saver.commit();
    expect(await preemption.finished).toEqual({
      durable: 7n,
      lost: null,
      text: 'preempted: no save is in progress; the newest durable version is 7',
    });
    expect(clock.sleeperCount).toBe(0);
    expect(logged).toEqual(['info: preempted: 25 s left', `info: ${preemption.report?.text}`]);
  });

  it('does not fit: at the deadline it is said what is lost, and the save goes on', async () => {
    const { saver, clock, preemption } = scene();
    saver.latest = async () => ({ version: 6n });
    saver.begin(7n, { writer: { index: 2, count: 4 }, missingWriters: [1, 3] });
    preemption.request();
    await clock.advance(24_999);
    expect(preemption.report).toBeNull();
    await clock.advance(1);
    const text =
      'preempted: version 7 did not become durable in 25 s ' +
      '(1.0 of 4.0 MiB, at model.bin, writer 2 of 4, waiting for writers 1 and 3); ' +
      'the newest durable version is 6, what was trained since is lost';
    const report = await preemption.finished;
    expect(report).toMatchObject({ durable: 6n, lost: { version: 7n }, text });
    expect(logged.at(-1)).toBe(`warn: ${text}`);
    saver.fail(new Error('killed'));
    expect(preemption.report).toBe(report);
  });

  it('fails meanwhile: its error is what is lost, at once', async () => {
    const { saver, preemption } = scene();
    saver.latest = async () => ({ version: 6n });
    saver.begin(7n);
    preemption.request();
    saver.fail(new CheckpointError('StorageFull', 'no room'));
    expect(await preemption.finished).toMatchObject({
      durable: 6n,
      lost: { version: 7n, why: 'could not be saved: no room' },
    });
  });

  it('a store that does not answer costs no time beyond the deadline, and the report says that it is not known', async () => {
    const { saver, clock, preemption } = scene({ deadlineMs: 300 });
    saver.latest = silent;
    saver.begin(7n);
    preemption.request();
    await clock.advance(300);
    expect(await preemption.finished).toMatchObject({ durable: 'unknown', lost: { version: 7n } });
  });
});

test('a copy that is still being made at the deadline is lost, too; one that was made in time is not', async () => {
  for (const fits of [false, true]) {
    const { saver, clock, preemption } = scene();
    const copied = Promise.withResolvers<void>();
    saver.beforeCopy = () => copied.promise;
    const starting = saver.saveStreams(async (open) => open('default').close());
    preemption.request();
    await clock.advance(24_999);
    if (fits) copied.resolve();
    await clock.advance(1);
    const lost = fits ? null : { version: null, why: 'was not copied in 25 s' };
    expect(await preemption.finished).toMatchObject({ durable: fits ? 0n : null, lost });
    copied.resolve();
    await starting;
  }
});

describe('nothing in flight', () => {
  it('the newest that was committed here is told without asking', async () => {
    const { saver, preemption } = scene();
    saver.begin(7n);
    saver.commit();
    saver.latest = () => expect.unreachable('it is known');
    preemption.request();
    expect(await preemption.finished).toMatchObject({ durable: 7n, lost: null });
  });

  it.each([
    { title: 'the store is asked', version: 3n, durable: 3n },
    { title: 'the store has none', version: null, durable: null },
  ])('$title', async ({ version, durable }) => {
    const { saver, preemption } = scene();
    saver.latest = async () => (version === null ? null : { version });
    preemption.request();
    expect(await preemption.finished).toMatchObject({ durable, lost: null });
  });

  it('a store that does not answer is waited for two seconds, one that fails not at all', async () => {
    const first = scene();
    first.saver.latest = silent;
    first.preemption.request();
    await first.clock.advance(1999);
    expect(first.preemption.report).toBeNull();
    await first.clock.advance(1);
    expect(first.preemption.report).toMatchObject({ durable: 'unknown', lost: null });

    const second = scene();
    second.saver.latest = async () => {
      throw new CheckpointError('Unavailable', 'no answer');
    };
    second.preemption.request();
    expect(await second.preemption.finished).toMatchObject({ durable: 'unknown', lost: null });
    expect(logged).toContain('info: preempted: the newest durable version could not be read');
  });
});

describe('the holder of a preemption', () => {
  it('is waited for, and what is saved then as well', async () => {
    const { saver, clock, preemption } = scene();
    const release = preemption.hold(() => 'failed');
    preemption.request();
    await clock.advance(10_000);
    expect(preemption.report).toBeNull();
    saver.begin(8n);
    release();
    await clock.advance(1000);
    expect(preemption.report).toBeNull();
    saver.commit();
    expect(await preemption.finished).toMatchObject({ durable: 8n, lost: null });
  });

  it('is asked at the deadline what is lost; one with nothing to lose delays no other', async () => {
    for (const loss of ['could not be saved: the step had not ended', null]) {
      const { clock, preemption } = scene();
      preemption.hold(() => loss);
      preemption.request();
      await clock.advance(25_000);
      const lost = loss === null ? null : { version: null, why: loss };
      expect(await preemption.finished).toMatchObject({ durable: null, lost });
    }
  });

  it('may say that it failed; that counts until something newer is durable', async () => {
    const error = new CheckpointError('Denied', 'not yours');
    const { preemption } = scene();
    preemption.hold(() => null)(error);
    preemption.request();
    expect(await preemption.finished).toMatchObject({ lost: { why: 'could not be saved: not yours' } });

    const other = scene();
    const release = other.preemption.hold(() => null);
    other.preemption.request();
    other.saver.begin(8n);
    release(error);
    other.saver.commit();
    expect(await other.preemption.finished).toMatchObject({ durable: 8n, lost: null });
  });

  it('counts once: what it says later changes nothing', async () => {
    const { preemption } = scene();
    const release = preemption.hold(() => null);
    release();
    release(new Error('too late'));
    preemption.request();
    expect((await preemption.finished).lost).toBeNull();
  });

  it('an error of its own is no reason not to end', async () => {
    const { clock, preemption } = scene();
    preemption.hold(() => expect.unreachable('broken'));
    preemption.request();
    await clock.advance(25_000);
    expect((await preemption.finished).text).toMatch(
      /^preempted: the last state could not be saved: .*broken/,
    );
  });
});

describe('notices', () => {
  it('the earliest of several deadlines counts, whichever came first', async () => {
    for (const [first, second] of [
      [20_000, 4000],
      [5000, 24_000],
    ] as const) {
      const { saver, clock, preemption } = scene();
      saver.begin(7n);
      preemption.request({ deadlineMs: first });
      await clock.advance(1000);
      preemption.request({ deadlineMs: second });
      await clock.advance(3999);
      expect(preemption.report).toBeNull();
      await clock.advance(1);
      expect(preemption.report?.text).toContain('did not become durable in 5 s');
      expect(clock.sleeperCount).toBe(0);
      expect(saver.throttleCalls).toEqual(['max null', 'resume']);
    }
  });

  it('one that comes when all is over changes nothing', async () => {
    const { clock, preemption } = scene();
    preemption.request();
    const report = await preemption.finished;
    preemption.request({ deadlineMs: 10 });
    expect([preemption.report, clock.sleeperCount]).toEqual([report, 0]);
  });

  it('no time at all is a deadline as well', async () => {
    const { saver, preemption } = scene();
    saver.begin(7n);
    preemption.request({ deadlineMs: 0 });
    expect((await preemption.finished).text).toContain('version 7 did not become durable in 0 s');
  });

  it('a signal is one, again and again, and the process lives; SIGTERM unless others are named', async () => {
    const { saver, preemption } = scene({ signals: undefined });
    saver.begin(7n);
    let heard = 0;
    preemption.signal.addEventListener('abort', () => heard++);
    for (const _ of [1, 2, 3]) process.emit('SIGTERM');
    expect([preemption.isRequested, preemption.report, heard]).toEqual([true, null, 1]);
    saver.commit();
    expect((await preemption.finished).durable).toBe(7n);
    expect(process.listenerCount('SIGTERM')).toBe(1);
  });

  it('dispose: signals are no notice any more; repeating is free, and so is a request by hand', async () => {
    const { preemption } = scene({ signals: ['SIGUSR2', 'SIGTERM'] });
    preemption[Symbol.dispose]();
    preemption[Symbol.dispose]();
    expect([process.listenerCount('SIGUSR2'), process.listenerCount('SIGTERM')]).toEqual([0, 0]);
    expect(preemption.isRequested).toBe(false);
    preemption.request();
    expect(await preemption.finished).toMatchObject({ durable: null });
  });

  it('invalid options are InvalidArgument, and no listener is added', () => {
    const invalid = (message: string) => expect.objectContaining({ code: 'InvalidArgument', message });
    for (const deadlineMs of [-1, Number.NaN, 2 ** 31]) {
      const message = `deadlineMs is ${deadlineMs}; it takes milliseconds from 0 to 2147483647`;
      expect(() => scene({ deadlineMs })).toThrow(invalid(message));
      expect(() => scene().preemption.request({ deadlineMs })).toThrow(invalid(message));
    }
    for (const signal of ['SIGKILL', 'SIGSTOP', 'SIGNONE' as NodeJS.Signals] as const) {
      expect(() => scene({ signals: ['SIGUSR2', signal] })).toThrow(
        invalid(expect.stringContaining(`"${signal}"; it takes a signal that a process can listen to`)),
      );
    }
    expect(process.listenerCount('SIGUSR2')).toBe(0);
  });
});

const TRAINING = new URL('../../packages/training/src/index.ts', import.meta.url).href;

test('in a worker thread, which hears no signals, it is refused, unless it listens to none', async () => {
  const source = `
    import { Preemption } from ${JSON.stringify(TRAINING)};
    import { parentPort } from 'node:worker_threads';
    const saver = { newest: null, saveStreams: async () => undefined, settled: async () => undefined };
    const outcome = (options) => {
      try {
        new Preemption({ saver, deadlineMs: 1000, ...options })[Symbol.dispose]?.();
        return 'accepted';
      } catch (error) {
        return error.code + ': ' + error.message;
      }
    };
    parentPort.postMessage([outcome({}), outcome({ signals: [] })]);
  `;
  const worker = new Worker(source, {
    eval: true,
    execArgv: ['--conditions=holdfast-source', '--input-type=module'],
  });
  const [message] = (await once(worker, 'message')) as [string[]];
  await worker.terminate();
  expect(message[0]).toMatch(/^InvalidArgument: a worker thread hears no signals/);
  expect(message[1]).not.toMatch(/worker thread/);
});
