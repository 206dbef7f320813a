/** Warnings about a save that is late or makes no progress, and when such a save is stopped. */

import { CheckpointError, type Logger } from '@holdfast/core';
import { ManualClock } from '@holdfast/testkit';
import { AsyncSaver, type AsyncSaverOptions } from '@holdfast/training';
import { describe, expect, test } from 'vitest';
import { ScriptedManager, turn } from './scripted-manager.ts';

const GIB = 1024 ** 3;
const SECOND = 1000;
const FILES = { 'model.bin': 8 * GIB, 'optimizer.bin': 4 * GIB };

/** A saver with a save of version 3 that has started to send. */
async function setUp(options: AsyncSaverOptions = {}) {
  const clock = new ManualClock();
  const manager = new ScriptedManager();
  const warnings: string[] = [];
  const logger: Logger = { log: (level, message) => void (level === 'warn' && warnings.push(message)) };
  const saver = new AsyncSaver(manager.asManager, { clock, logger, ...options });
  const begin = async (files: Readonly<Record<string, number>> = FILES) => {
    const started = saver.saveAsync({ buffers: { a: new Uint8Array(1) }, version: 3 });
    await turn();
    manager.last.begin(files);
    await started;
  };
  const bytes = (name: string, done: number, total: number) =>
    manager.last.tell({ type: 'bytes', name, doneBytes: done * GIB, totalBytes: total * GIB });
  return { clock, manager, warnings, saver, begin, bytes };
}

describe('what is known of a save in flight', () => {
  test('bytes of all files, the one that is furthest behind, who saves, and who is waited for', async () => {
    const { clock, manager, saver, begin, bytes } = await setUp();
    await begin({ ...FILES, last: GIB });
    const expected = {
      version: 3n,
      writer: { index: 1, count: 4 },
      totalBytes: 13 * GIB,
      missingWriters: [],
    };
    expect(saver.inFlight).toEqual({
      ...expected,
      elapsedMs: 0,
      doneBytes: 0,
      file: 'model.bin',
      silentMs: 0,
    });
    await clock.advance(5 * SECOND);
    bytes('model.bin', 4, 8);
    bytes('optimizer.bin', 1, 4);
    await clock.advance(2 * SECOND);
    expect(saver.inFlight).toEqual({
      ...expected,
      elapsedMs: 7 * SECOND,
      doneBytes: 5 * GIB,
      file: 'optimizer.bin',
      silentMs: 2 * SECOND,
    });
    bytes('optimizer.bin', 4, 4);
    expect(saver.inFlight).toMatchObject({ file: 'model.bin', silentMs: 0 });
    bytes('model.bin', 8, 8);
    expect(saver.inFlight).toMatchObject({ file: 'last' });
    bytes('last', 1, 1);
    manager.last.tell({ type: 'delivered', version: 3n, missingWriters: [0, 2] });
    expect(saver.inFlight).toMatchObject({ file: null, doneBytes: 13 * GIB, missingWriters: [0, 2] });
  });

  test('the time of the call counts, waiting for the save before it too', async () => {
    const { clock, manager, saver, begin } = await setUp();
    await begin();
    const second = saver.saveAsync({ buffers: {}, version: 4 });
    await clock.advance(5 * SECOND);
    manager.last.commit();
    await turn();
    manager.last.stage();
    await second;
    await clock.advance(SECOND);
    expect(saver.inFlight).toMatchObject({ elapsedMs: 6 * SECOND, silentMs: SECOND });
    expect(saver.report.lastDurationMs).toBe(5 * SECOND);
    manager.last.commit();
    await turn();
    expect(saver.report.lastDurationMs).toBe(6 * SECOND);
  });
});

describe('a save that takes longer than sloMs', () => {
  const late = { sloMs: 60 * SECOND, stallTimeoutMs: 3600 * SECOND };

  test('is warned of once: how far it is, and who it waits for', async () => {
    const { clock, manager, warnings, saver, begin, bytes } = await setUp(late);
    await begin();
    bytes('model.bin', 2, 8);
    await clock.advance(60 * SECOND - 1);
    expect(warnings).toEqual([]);
    await clock.advance(1);
    const text =
      'version 3 is late: 60 s after the call it is not committed: 2.0 of 12.0 GiB (16 %), at model.bin, writer 1 of 4';
    expect([warnings, saver.report.late]).toEqual([[text], 1]);
    await clock.advance(600 * SECOND);
    manager.last.commit();
    await turn();
    expect(warnings).toHaveLength(1);
    expect(saver.report).toMatchObject({ late: 1, committed: 1, lastDurationMs: 660 * SECOND });

    await begin();
    bytes('model.bin', 8, 8);
    bytes('optimizer.bin', 4, 4);
    manager.last.tell({ type: 'delivered', version: 3n, missingWriters: [0, 3] });
    await clock.advance(60 * SECOND);
    expect(warnings[1]).toContain(': 12.0 of 12.0 GiB (100 %), writer 1 of 4, waiting for writers 0 and 3');
    expect(saver.report.late).toBe(2);
  });

  test('while it is still being copied', async () => {
    const { clock, warnings, saver } = await setUp(late);
    saver.saveAsync({ buffers: {} }).catch(() => undefined);
    await clock.advance(60 * SECOND);
    expect(warnings).toEqual([
      'the next version is late: 60 s after the call it is not committed: it is still being copied, writer 0 of 1',
    ]);
  });

  test('one that is committed in time is not late, and leaves no timer behind', async () => {
    const { clock, manager, warnings, saver, begin } = await setUp(late);
    await begin();
    expect(clock.sleeperCount).toBe(1);
    await clock.advance(59 * SECOND);
    manager.last.commit();
    await turn();
    expect(clock.sleeperCount).toBe(0);
    await clock.advance(3600 * SECOND);
    expect([warnings, saver.report.late]).toEqual([[], 0]);
  });

  test('one that has ended before it was checked is late nevertheless', async () => {
    let nowMs = 0;
    const stopped = new ManualClock();
    const clock = {
      nowMs: () => nowMs,
      monotonicMs: () => nowMs,
      sleep: stopped.sleep.bind(stopped),
    };
    const { manager, warnings, saver, begin } = await setUp({ ...late, clock });
    await begin();
    nowMs = 61 * SECOND;
    manager.last.commit();
    await turn();
    expect(warnings).toEqual([
      expect.stringContaining('version 3 is late: 61 s after the call it has only now ended'),
    ]);
    expect(saver.report.late).toBe(1);
  });
});

describe('a save of which nothing is heard', () => {
  const stalled = { stallTimeoutMs: 80 * SECOND };

  test('is warned of again and again: file, rank, last progress, and why it was repeated', async () => {
    const { clock, manager, warnings, begin, bytes } = await setUp(stalled);
    await begin();
    bytes('model.bin', 2, 8);
    await clock.advance(50 * SECOND);
    manager.last.tell({ type: 'retry', detail: 'put model.bin: connection reset' });
    await clock.advance(30 * SECOND - 1);
    expect(warnings).toEqual([]);
    await clock.advance(1);
    expect(warnings).toEqual([
      'no progress of version 3 for 80 s: 2.0 of 12.0 GiB (16 %), at model.bin, writer 1 of 4; ' +
        'model.bin has 2.0 of 8.0 GiB; last retry 30 s ago: put model.bin: connection reset',
    ]);
    await clock.advance(80 * SECOND);
    expect(warnings).toHaveLength(2);
    expect(warnings[1]).toContain('for 160 s');
  });

  test('two minutes are the default', async () => {
    const { clock, warnings, begin } = await setUp();
    await begin();
    await clock.advance(120 * SECOND - 1);
    expect(warnings).toEqual([]);
    await clock.advance(1);
    expect(warnings).toHaveLength(1);
  });

  test('each progress begins the time anew', async () => {
    const { clock, manager, warnings, saver, begin, bytes } = await setUp(stalled);
    const started = saver.saveAsync({ buffers: {}, version: 2 });
    await clock.advance(79 * SECOND);
    manager.last.stage();
    await started;
    await clock.advance(79 * SECOND);
    manager.last.commit();
    await turn();
    await begin();
    for (const done of [1, 2, 3]) {
      await clock.advance(79 * SECOND);
      bytes('model.bin', done, 8);
    }
    await clock.advance(79 * SECOND);
    manager.last.tell({ type: 'delivered', version: 3n, missingWriters: [0, 2] });
    await clock.advance(79 * SECOND);
    const waiting = { type: 'waiting', version: 3n, waitedMs: 0 } as const;
    manager.last.tell({ ...waiting, missingWriters: [2] }); // writer 0 has delivered
    await clock.advance(79 * SECOND);
    expect(warnings).toEqual([]);
    await clock.advance(SECOND);
    expect(warnings).toHaveLength(1);
  });

  test('repeats, waiting for the same writers, and bytes that were counted before are no progress', async () => {
    const { clock, manager, warnings, begin, bytes } = await setUp(stalled);
    await begin();
    bytes('model.bin', 2, 8);
    manager.last.tell({ type: 'delivered', version: 3n, missingWriters: [2] });
    for (let second = 0; second < 80; second += 10) {
      await clock.advance(10 * SECOND);
      manager.last.tell({ type: 'retry', detail: 'again' });
      manager.last.tell({ type: 'waiting', version: 3n, missingWriters: [2], waitedMs: second });
      bytes('model.bin', 2, 8);
    }
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain('waiting for writer 2');
  });

  test('is not, while the throttle is paused; after that the time goes on', async () => {
    const { clock, manager, warnings, begin } = await setUp(stalled);
    await begin();
    await clock.advance(40 * SECOND);
    manager.throttle.pause();
    await clock.advance(3600 * SECOND);
    expect(warnings).toEqual([]);
    manager.throttle.resume();
    await clock.advance(39 * SECOND);
    expect(warnings).toEqual([]);
    await clock.advance(10 * SECOND); // the pause began and ended between two checks
    expect(warnings).toHaveLength(1);
  });

  test('is not, because this process was busy itself and let nothing through', async () => {
    let busyMs = 0;
    const moved = new ManualClock();
    const clock = {
      nowMs: () => moved.nowMs() + busyMs,
      monotonicMs: () => moved.monotonicMs() + busyMs,
      sleep: moved.sleep.bind(moved),
    };
    const { warnings, begin } = await setUp({ ...stalled, clock });
    await begin();
    await turn();
    busyMs = 3600 * SECOND;
    await moved.advance(70 * SECOND);
    expect(warnings).toEqual([]);
    await moved.advance(10 * SECOND);
    expect(warnings).toHaveLength(1);
  });

  test('the warnings are those of the process, unless there is a logger', async () => {
    const { clock, begin } = await setUp({ ...stalled, logger: undefined });
    const heard: string[] = [];
    const listen = (warning: Error) => void heard.push(`${warning.name}: ${warning.message}`);
    process.on('warning', listen);
    try {
      await begin();
      await clock.advance(80 * SECOND);
      await turn();
      expect(heard).toEqual([expect.stringContaining('HoldfastTraining: no progress of version 3')]);
    } finally {
      process.off('warning', listen);
    }
  });
});

describe('onStall: fail', () => {
  const failing = { stallTimeoutMs: 80 * SECOND, onStall: 'fail' } as const;

  test('the save is stopped, and who asks next is told of it as TimedOut, with the same words', async () => {
    const { clock, warnings, saver, begin } = await setUp(failing);
    await begin();
    await clock.advance(80 * SECOND);
    await expect(saver.settled()).rejects.toMatchObject({
      code: 'TimedOut',
      message:
        'the save was stopped: no progress of version 3 for 80 s: 0.0 of 12.0 GiB (0 %), at model.bin, writer 1 of 4; model.bin has 0.0 of 8.0 GiB',
      context: { version: 3n, writer: 1 },
    });
    expect(warnings).toEqual([]);
    expect(saver.report).toMatchObject({ started: 1, failed: 1 });
  });

  test('a manager that says no more than that it was stopped: it is told as TimedOut', async () => {
    const { clock, manager, saver, begin } = await setUp(failing);
    await begin();
    const { last } = manager;
    last.whenStopped = () => last.fail(new CheckpointError('Aborted', 'stopped'));
    await clock.advance(80 * SECOND);
    await expect(saver.settled()).rejects.toMatchObject({ code: 'TimedOut' });
  });

  test('what is true counts for more: a commit stands, and so does an outcome that is not known', async () => {
    const { clock, manager, saver, begin } = await setUp(failing);
    await begin();
    const { last: first } = manager;
    first.whenStopped = () => first.commit();
    await clock.advance(80 * SECOND);
    expect(await saver.settled()).toMatchObject({ version: 3n });

    await begin();
    const { last: second } = manager;
    const unknown = new CheckpointError('OutcomeUnknown', 'it may be committed');
    second.whenStopped = () => second.fail(unknown);
    await clock.advance(80 * SECOND);
    await expect(saver.settled()).rejects.toBe(unknown);
  });

  test('a save that does not end when it is stopped is stopped once, and waited for', async () => {
    const { clock, manager, saver, begin } = await setUp(failing);
    await begin();
    const { last } = manager;
    let stops = 0;
    last.whenStopped = () => {
      stops += 1;
    };
    await clock.advance(400 * SECOND);
    expect([stops, saver.inFlight?.version]).toEqual([1, 3n]);
    last.commit();
    expect(await saver.settled()).toMatchObject({ version: 3n });
  });

  test('a copy that makes no end rejects its own call', async () => {
    const { clock, saver } = await setUp(failing);
    const started = saver.saveAsync({ buffers: {} });
    const failed = expect(started).rejects.toMatchObject({
      code: 'TimedOut',
      message:
        'the save was stopped: no progress of the next version for 80 s: it is still being copied, writer 0 of 1',
    });
    await clock.advance(80 * SECOND);
    await failed;
    expect(await saver.settled()).toBeNull();
  });
});
