/** When saves start, and how their results are reported. */

import { CheckpointError, isCheckpointError, type SaveResult } from '@holdfast/core';
import { AsyncSaver, type AsyncSaverOptions, type SaveStart } from '@holdfast/training';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ScriptedManager, turn } from './scripted-manager.ts';

const SOURCES = { buffers: { a: new Uint8Array(1) } };

function setUp(options: AsyncSaverOptions = {}) {
  const manager = new ScriptedManager();
  const saver = new AsyncSaver(manager.asManager, options);
  return { manager, saver };
}

/** A saver with one save that has started. */
async function setUpStarted(options: AsyncSaverOptions = {}) {
  const { manager, saver } = setUp(options);
  const started = saver.saveAsync(SOURCES);
  await turn();
  manager.last.stage();
  expect(await started).toBe('started');
  return { manager, saver };
}

async function isPending(promise: Promise<unknown>): Promise<boolean> {
  let isSettled = false;
  const note = () => {
    isSettled = true;
  };
  promise.then(note, note);
  await turn();
  return !isSettled;
}

describe('a save', () => {
  test('holds up its caller until everything is copied, and no longer', async () => {
    const { manager, saver } = setUp();
    const started = saver.saveAsync({ ...SOURCES, version: 7 });
    expect(await isPending(started)).toBe(true);
    expect(saver.inFlight).toBeNull();
    manager.last.stage(100);
    expect(await started).toBe('started');
    expect(saver.inFlight).toMatchObject({ version: 7n, totalBytes: 100, doneBytes: 0, file: null });
    expect(saver.newest).toBeNull();
    manager.last.commit();
    await turn();
    expect([saver.inFlight, saver.newest?.version]).toEqual([null, 7n]);
    expect(saver.report).toMatchObject({ started: 1, committed: 1, skipped: 0, failed: 0, late: 0 });
  });

  test('gets the options of the call, the staging of the saver, and tells its progress', async () => {
    const staging = { stage: () => Promise.reject(new Error('nobody copies here')) };
    const { manager, saver } = setUp({ staging });
    const heard: string[] = [];
    const onProgress = ({ type }: { type: string }) => void heard.push(type);
    const saving = saver.saveAsync({ ...SOURCES, version: 3, metrics: { loss: 1 }, onProgress });
    await turn();
    expect(manager.last.options).toMatchObject({ ...SOURCES, version: 3, metrics: { loss: 1 }, staging });
    manager.last.begin({ a: 1 });
    await saving;
    expect(heard).toEqual(['staged', 'joined', 'planned']);
  });

  test('is told by `settled` once, when nothing is in flight any more', async () => {
    const { manager, saver } = await setUpStarted();
    const settled = saver.settled();
    expect(await isPending(settled)).toBe(true);
    manager.last.commit();
    expect(await settled).toMatchObject({ version: 1n });
    expect(await saver.settled()).toBeNull();
    expect(saver.newest?.version).toBe(1n);
  });

  test('a save of a version that was committed before leaves the newest one the newest', async () => {
    const { manager, saver } = setUp();
    for (const version of [5, 6, 5]) {
      const started = saver.saveAsync({ ...SOURCES, version });
      await turn();
      manager.last.stage();
      await started;
      manager.last.commit();
      await saver.settled();
    }
    expect(saver.newest?.version).toBe(6n);
  });

  test('a state that was never saved: `settled` has nothing to report', async () => {
    expect(await setUp().saver.settled()).toBeNull();
  });

  test('is stopped by the signal of its caller, also when it is in flight', async () => {
    const { manager, saver } = setUp();
    const stop = new AbortController();
    const started = saver.saveAsync({ ...SOURCES, signal: stop.signal });
    await turn();
    manager.last.stage();
    await started;
    const reason = new CheckpointError('Aborted', 'enough');
    stop.abort(reason);
    await expect(saver.settled()).rejects.toBe(reason);
  });
});

describe('a failure before everything is copied', () => {
  test('is that of its own call, and no other call gets it', async () => {
    const { manager, saver } = setUp();
    const full = new CheckpointError('StorageFull', 'no room');
    const started = saver.saveAsync(SOURCES);
    await turn();
    manager.last.fail(full);
    await expect(started).rejects.toBe(full);
    expect(await saver.settled()).toBeNull();
    expect(saver.report).toEqual({
      started: 0,
      committed: 0,
      skipped: 0,
      failed: 0,
      late: 0,
      lastDurationMs: null,
    });
    const next = saver.saveAsync(SOURCES);
    await turn();
    manager.last.stage();
    expect(await next).toBe('started');
  });

  test('an invalid version is refused before the manager is asked', async () => {
    const { manager, saver } = setUp();
    await expect(saver.saveAsync({ ...SOURCES, version: 1.5 })).rejects.toThrow(/safe integer|1\.5/);
    expect(manager.saves).toEqual([]);
  });
});

describe('a failure after the copy', () => {
  const lost = new CheckpointError('Unavailable', 'the store is away');
  const callers: [string, (saver: AsyncSaver) => Promise<unknown>][] = [
    ['saveAsync', (saver) => saver.saveAsync(SOURCES)],
    ['saveStreams', (saver) => saver.saveStreams(async () => undefined)],
    ['settled', (saver) => saver.settled()],
    ['close', (saver) => saver.close()],
    ['the end of `await using`', (saver) => saver[Symbol.asyncDispose]()],
  ];
  test.each(callers)('is told by %s, once, and nothing is saved by it', async (_, call) => {
    for (const isOver of [true, false]) {
      const { manager, saver } = await setUpStarted();
      if (isOver) manager.last.fail(lost);
      const told = call(saver);
      expect(await isPending(told)).toBe(!isOver);
      if (!isOver) manager.last.fail(lost);
      await expect(told).rejects.toBe(lost);
      expect(manager.saves).toHaveLength(1);
      expect(await saver.settled()).toBeNull();
      await saver.close();
      expect(saver.report).toMatchObject({ started: 1, committed: 0, failed: 1 });
      expect(saver.newest).toBeNull();
    }
  });

  test('the first of two waiting calls gets the failure, and the second saves', async () => {
    const { manager, saver } = await setUpStarted();
    const [first, second] = [saver.saveAsync(SOURCES), saver.saveAsync(SOURCES)];
    manager.last.fail(lost);
    await expect(first).rejects.toBe(lost);
    await turn();
    expect(manager.saves).toHaveLength(2);
    manager.last.stage();
    expect(await second).toBe('started');
  });

  test('is not told to a call that was stopped while it waited, but to the next', async () => {
    const { manager, saver } = await setUpStarted();
    const stop = new AbortController();
    const stopped = saver.saveAsync({ ...SOURCES, signal: stop.signal });
    const reason = new CheckpointError('Aborted', 'enough');
    stop.abort(reason);
    manager.last.fail(lost);
    await expect(stopped).rejects.toBe(reason);
    await expect(saver.settled()).rejects.toBe(lost);
    expect(manager.saves).toHaveLength(1);
  });

  test('without a caller that waits is no unhandled rejection', async () => {
    const { manager } = await setUpStarted();
    manager.last.fail(lost);
    await turn(); // vitest would report an unhandled rejection
  });
});

describe('a call while a save is in flight', () => {
  test('waits for its end, and only then is anything copied', async () => {
    const { manager, saver } = await setUpStarted();
    const second = saver.saveAsync(SOURCES);
    const third = saver.saveAsync(SOURCES);
    expect([await isPending(second), manager.saves.length]).toEqual([true, 1]);
    manager.last.commit();
    await turn();
    expect(manager.saves).toHaveLength(2);
    manager.last.stage();
    expect(await second).toBe('started');
    expect([await isPending(third), manager.saves.length]).toEqual([true, 2]);
    manager.last.commit();
    await turn();
    expect(manager.saves).toHaveLength(3);
  });

  test('`skip`: leaves its save out, also while the one before is still copying; afterwards it saves', async () => {
    const { manager, saver } = setUp({ whileSaving: 'skip' });
    const first = saver.saveAsync(SOURCES);
    expect(await saver.saveAsync(SOURCES)).toBe('skipped');
    await turn();
    manager.last.stage();
    await first;
    let isWritten = false;
    const write = async () => {
      isWritten = true;
    };
    expect([await saver.saveStreams(write), isWritten]).toEqual(['skipped', false]);
    manager.last.commit();
    await turn();
    const next = saver.saveAsync(SOURCES);
    await turn();
    manager.last.fail(new Error('no'));
    await expect(next).rejects.toThrow('no');
    const settled = saver.settled();
    const last = saver.saveAsync(SOURCES);
    await settled;
    await turn();
    manager.last.stage();
    expect(await last).toBe('started');
    expect(saver.report).toMatchObject({ started: 2, committed: 1, skipped: 2 });
  });
});

describe('close', () => {
  test('waits for what is in flight; later saves are refused, and it may be repeated', async () => {
    const { manager, saver } = await setUpStarted();
    const waiting = saver.saveAsync(SOURCES);
    const closed = saver.close();
    const refused = 'InvalidArgument: the saver is closed and saves nothing more';
    for (const call of [saver.saveAsync(SOURCES), saver.saveStreams(async () => undefined)])
      expect(
        await call.catch((error: unknown) => isCheckpointError(error) && `${error.code}: ${error.message}`),
      ).toBe(refused);
    expect(await isPending(closed)).toBe(true);
    manager.last.commit();
    await turn();
    manager.last.stage(); // the one that was requested before
    expect(await waiting).toBe('started');
    expect(await isPending(closed)).toBe(true);
    manager.last.commit();
    await closed;
    await saver.close();
    expect(await saver.settled()).toMatchObject({ version: 2n });
  });
});

describe('options', () => {
  test.each<[AsyncSaverOptions, string]>([
    [{ whileSaving: 'no' as 'wait' }, 'whileSaving is "no"; it takes wait, skip'],
    [{ onStall: 'no' as 'warn' }, 'onStall is "no"; it takes warn, fail'],
    [{ sloMs: 0 }, 'sloMs is 0; it takes a whole number from 1 to 2147483647'],
    [{ stallTimeoutMs: 2 ** 31 }, 'stallTimeoutMs is 2147483648; it takes a whole number'],
  ])('%j is refused: %s', (options, message) => {
    expect(() => setUp(options)).toThrow(message);
  });
});

/**
 * The outcome of a save in the model, with the number of turns until the copy is made and from
 * there to the end.
 */
interface Fate {
  readonly end: 'commit' | 'fail before' | 'fail after';
  readonly copyTurns: number;
  readonly endTurns: number;
}

async function play({ end, copyTurns, endTurns }: Fate, save: ScriptedManager['last']): Promise<void> {
  for (let count = 0; count < copyTurns; count++) await turn();
  if (end === 'fail before') return save.fail(new Error(`before ${save.version}`));
  save.stage();
  for (let count = 0; count < endTurns; count++) await turn();
  if (end === 'fail after') save.fail(new Error(`after ${save.version}`));
  else save.commit();
}

type Answer =
  | { of: 'save'; version: bigint; said: SaveStart }
  | { of: 'settled'; said: SaveResult | null }
  | { of: 'save' | 'settled'; version?: bigint; error: string };

test('any interleaving: one in flight, calls in order, each failure told once, each started save committed or told of', async () => {
  const fate = fc.record({
    end: fc.constantFrom<Fate['end'][]>('commit', 'commit', 'fail before', 'fail after'),
    copyTurns: fc.nat(2),
    endTurns: fc.nat(3),
  });
  const step = fc.record({ call: fc.constantFrom('save', 'save', 'settled'), turns: fc.nat(3), fate });
  const plan = fc.array(step, { maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(plan, fc.constantFrom('wait' as const, 'skip' as const), async (steps, whileSaving) => {
      const { manager, saver } = setUp({ whileSaving });
      const fates = new Map(steps.map(({ fate: each }, index) => [BigInt(index), each]));
      manager.onSave = (save) => void play(fates.get(save.version) as Fate, save);
      const answers: Promise<Answer>[] = [];
      for (const [index, { call, turns }] of steps.entries()) {
        const version = BigInt(index);
        const asked: Promise<Answer> =
          call === 'save'
            ? saver.saveAsync({ ...SOURCES, version }).then((said) => ({ of: 'save', version, said }))
            : saver.settled().then((said) => ({ of: 'settled', said }));
        const of = call === 'save' ? ('save' as const) : ('settled' as const);
        answers.push(asked.catch((error: Error) => ({ of, version, error: error.message })));
        for (let count = 0; count < turns; count++) await turn();
      }
      const heard = await Promise.all(answers);
      const last = await saver.close().then(
        () => [],
        (error: Error) => [error.message],
      );
      const errors = [...heard.flatMap((answer) => ('error' in answer ? [answer.error] : [])), ...last];
      const begun = manager.saves.map(({ version }) => version);
      const ended = (end: Fate['end']) => begun.filter((version) => fates.get(version)?.end === end);

      expect(manager.inFlightMax).toBeLessThanOrEqual(1);
      expect(begun).toEqual([...begun].sort((a, b) => Number(a - b)));
      expect([...errors].sort()).toEqual(
        [
          ...ended('fail before').map((version) => `before ${version}`),
          ...ended('fail after').map((version) => `after ${version}`),
        ].sort(),
      );
      const started = heard.flatMap((each) =>
        each.of === 'save' && 'said' in each && each.said === 'started' ? [each.version] : [],
      );
      expect(started).toEqual(begun.filter((version) => fates.get(version)?.end !== 'fail before'));
      // The call gets its own error, or the error of a save before it. In the latter case it has
      // saved nothing.
      for (const answer of heard) {
        if (answer.of !== 'save' || !('error' in answer)) continue;
        expect(answer.error === `before ${answer.version}`).toBe(begun.includes(answer.version as bigint));
      }
      const skipped = heard.filter((answer) => 'said' in answer && answer.said === 'skipped').length;
      if (whileSaving === 'wait') expect(skipped).toBe(0);
      expect(saver.report).toMatchObject({
        started: started.length,
        committed: ended('commit').length,
        failed: ended('fail after').length,
        skipped,
      });
      expect(saver.newest?.version).toBe(ended('commit').at(-1));
    }),
    { numRuns: 150 },
  );
});
