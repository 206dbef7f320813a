/** The train loop with a saver, and its reaction to a notice. */

import { CheckpointError, type Logger } from '@holdfast/core/contract';
import { ManualClock } from '@holdfast/testkit';
import {
  LocalCoordinator,
  Preemption,
  RecoverableError,
  State,
  StopIteration,
  setCheckpointManager,
  type TrainOptions,
  train,
  type World,
} from '@holdfast/training';
import { afterEach, describe, expect, it } from 'vitest';
import { ScriptedSaver } from './scripted-saver.ts';

const BUSY = new CheckpointError('Unavailable', 'busy');
const DENIED = new CheckpointError('Denied', 'not yours');
const DEADLINE_MS = 25_000;

class Counter extends State<number> {
  value = 0;
  savesEachStep = false;

  async sync(): Promise<void> {} // one worker counts

  override snapshot(): number {
    return this.value;
  }

  override apply(snapshot: number): void {
    this.value = snapshot;
  }

  override async save(stream: WritableStream<Uint8Array>): Promise<void> {
    const writer = stream.getWriter();
    await writer.write(Uint8Array.of(this.value));
    writer.releaseLock();
  }

  override shouldSaveCheckpoint(): boolean {
    return this.savesEachStep;
  }
}

class ScriptedCoordinator extends LocalCoordinator {
  rank = 0;
  calls: string[] = [];
  waiting: { [call: string]: Promise<never> } = {};

  override async rendezvous(): Promise<World> {
    this.calls.push('rendezvous');
    await this.waiting['rendezvous'];
    return {
      rank: this.rank,
      size: 2,
      allGather: async (bytes) => {
        await this.waiting['allGather'];
        return [bytes];
      },
      barrier: async () => {
        this.calls.push('barrier');
        await this.waiting[this.calls.includes('monitor') ? 'barrier' : 'barrier of the world'];
      },
    };
  }

  override shouldRendezvous(): boolean {
    // Coordinators of several workers answer asynchronously.
    return (this.waiting['shouldRendezvous'] ?? false) as boolean;
  }

  override monitorProgress(): void {
    this.calls.push('monitor');
  }

  override onError(error: unknown): void {
    this.calls.push(`onError ${(error as Error).message}`);
  }
}

class Scene {
  readonly saver = new ScriptedSaver();
  readonly clock = new ManualClock();
  readonly state = new Counter();
  readonly coordinator = new ScriptedCoordinator();
  logged: string[] = [];
  readonly logger: Logger = {
    log: (level, message) => {
      if (message !== 'there is no checkpoint to load') this.logged.push(`${level}: ${message}`);
    },
  };
  readonly preemption = new Preemption({
    saver: this.saver,
    deadlineMs: DEADLINE_MS,
    signals: [],
    clock: this.clock,
    logger: this.logger,
  });

  constructor() {
    setCheckpointManager(this.saver.manager);
  }

  /** Three steps that add 1. `during` runs in the step of that number, before its end. */
  train(
    during: Readonly<Record<number, () => unknown>> = {},
    options: TrainOptions = { saver: this.saver },
  ): Promise<Counter> {
    let stepCount = 0;
    const step = async (state: Counter) => {
      if (state.value === 3) throw new StopIteration('no data left');
      stepCount += 1;
      state.value += 1;
      await during[stepCount]?.();
    };
    return train(this.coordinator, step, this.state, { logger: this.logger, ...options });
  }

  /** The notice comes in step 2, before `during` runs. */
  trainPreempted(during: () => unknown = () => undefined): Promise<Counter> {
    const notice = () => {
      this.preemption.request();
      return during();
    };
    return this.train({ 2: notice }, { saver: this.saver, preemption: this.preemption });
  }

  get copied(): (number | undefined)[] {
    return this.saver.copied.map(([value]) => value);
  }
}

const never = () => new Promise<never>(() => undefined);

afterEach(() => setCheckpointManager(null));

describe('with a saver', () => {
  it('a step waits for the copy alone, and the end of the loop for what is in flight', async () => {
    const scene = new Scene();
    scene.state.savesEachStep = true;
    scene.saver.isSkipping = true;
    scene.saver.afterCopy = () => undefined;
    let isOver = false;
    const training = scene.train({ 3: () => expect(scene.saver.inFlight?.version).toBe(0n) });
    void training.then(() => {
      isOver = true;
    });
    await scene.clock.advance(0);
    expect([scene.state.value, isOver, scene.copied]).toEqual([3, false, [1]]);
    expect(scene.logged).toEqual(Array(2).fill('info: a checkpoint was skipped: another save is in flight'));
    scene.saver.commit();
    expect(await training).toBe(scene.state);
    expect(scene.coordinator.calls.filter((call) => call.startsWith('onError'))).toEqual([]);
  });

  it('ranks other than 0 save nothing', async () => {
    const scene = new Scene();
    scene.state.savesEachStep = true;
    scene.coordinator.rank = 1;
    await scene.train();
    expect(scene.copied).toEqual([]);
  });

  it('what an earlier save failed with is told, and the present state saved at once', async () => {
    const scene = new Scene();
    scene.state.savesEachStep = true;
    const fates = [() => scene.saver.fail(BUSY), () => scene.saver.commit(), () => scene.saver.commit()];
    scene.saver.afterCopy = () => fates.shift()?.();
    await scene.train();
    expect(scene.copied).toEqual([1, 2, 3]);
    expect(scene.coordinator.calls).toContain('onError busy');
    expect(scene.logged).toEqual(['warn: a checkpoint could not be saved; training continues: busy']);
  });

  it('a second try that fails as well waits for the next step that is due', async () => {
    const scene = new Scene();
    scene.state.savesEachStep = true;
    const failures = [BUSY, BUSY];
    scene.saver.beforeCopy = async () => {
      const failure = failures.shift();
      if (failure) throw failure;
    };
    await scene.train();
    expect(scene.copied).toEqual([2, 3]);
    expect(scene.logged).toHaveLength(2);
  });

  it('a lasting failure of an earlier save ends rank 0, after the others were met, and nothing is saved', async () => {
    const scene = new Scene();
    scene.state.savesEachStep = true;
    scene.saver.afterCopy = () => scene.saver.fail(DENIED);
    await expect(scene.train()).rejects.toBe(DENIED);
    expect(scene.copied).toEqual([1]);
    expect(scene.coordinator.calls.slice(-2)).toEqual(['barrier', 'onError not yours']);
  });

  it('the last save fails: a lasting error is that of the loop, one that may pass a warning', async () => {
    for (const error of [DENIED, BUSY]) {
      const scene = new Scene();
      scene.saver.afterCopy = () => scene.saver.fail(error);
      const saveLast = () => {
        scene.state.savesEachStep = true;
      };
      const training = scene.train({ 3: saveLast });
      if (error === DENIED) await expect(training).rejects.toBe(DENIED);
      else expect(await training).toBe(scene.state);
      const told = error === DENIED ? [] : ['warn: a checkpoint could not be saved: busy'];
      expect(scene.logged).toEqual(told);
      expect(scene.coordinator.calls.at(-1)).toBe(`onError ${error.message}`);
    }
  });

  it('a loop that fails waits as well, and keeps its error', async () => {
    const scene = new Scene();
    scene.state.savesEachStep = true;
    scene.saver.afterCopy = () => undefined;
    const error = new TypeError('x is undefined');
    const training = scene.train({
      2: () => {
        throw error;
      },
    });
    const outcome = training.catch((reason: unknown) => reason);
    await scene.clock.advance(0);
    scene.saver.fail(DENIED);
    expect(await outcome).toBe(error);
    expect(scene.logged).toEqual(['warn: a checkpoint could not be saved: not yours']);
  });

  it('that saves elsewhere, or is not the one of the preemption, is InvalidArgument before anything is done', async () => {
    const scene = new Scene();
    const { saver } = scene;
    setCheckpointManager(new ScriptedSaver().manager);
    await expect(scene.train({}, { saver })).rejects.toMatchObject({ code: 'InvalidArgument' });
    setCheckpointManager(null);
    await expect(scene.train({}, { saver })).rejects.toThrow('another manager than setCheckpointManager');
    setCheckpointManager(saver.manager);
    const preemption = new Preemption({ saver: new ScriptedSaver(), deadlineMs: 1, signals: [] });
    await expect(scene.train({}, { saver, preemption })).rejects.toMatchObject({ code: 'InvalidArgument' });
    expect(scene.coordinator.calls).toEqual([]);
  });
});

describe('at a notice', () => {
  it('the loop ends with the step in progress, whose state rank 0 saves though it is not due; it waits for no other rank', async () => {
    const scene = new Scene();
    expect(await scene.trainPreempted()).toBe(scene.state);
    expect([scene.state.value, scene.copied]).toEqual([2, [2]]);
    expect(scene.coordinator.calls).toEqual(['rendezvous', 'barrier', 'monitor', 'monitor']);
    expect(scene.preemption.report).toMatchObject({ durable: 0n, lost: null });
  });

  it('a rank other than 0 leaves without a word', async () => {
    const scene = new Scene();
    scene.coordinator.rank = 1;
    await scene.trainPreempted();
    expect([scene.state.value, scene.copied]).toEqual([2, []]);
    expect(scene.preemption.report?.lost).toBeNull();
  });

  it('without a saver of its own the loop ends, and what steps save is waited for', async () => {
    const scene = new Scene();
    const notice = () => {
      scene.saver.begin(5n);
      scene.preemption.request();
    };
    const training = scene.train({ 2: notice }, { preemption: scene.preemption });
    await scene.clock.advance(1000);
    expect([scene.state.value, scene.preemption.report]).toEqual([2, null]);
    scene.saver.commit();
    await training;
    expect(scene.preemption.report).toMatchObject({ durable: 5n, lost: null });
  });

  it('what is in flight is waited for, then the last state is saved', async () => {
    const scene = new Scene();
    scene.saver.begin(9n);
    const training = scene.trainPreempted();
    await scene.clock.advance(1000);
    expect([scene.state.value, scene.copied]).toEqual([2, []]);
    scene.saver.commit();
    await training;
    expect(scene.copied).toEqual([2]);
  });

  it('a state that is being saved already is not saved again, unless that fails', async () => {
    for (const fails of [false, true]) {
      const scene = new Scene();
      scene.state.savesEachStep = true;
      scene.saver.afterCopy = () => undefined;
      const training = scene.trainPreempted(() => scene.saver.commit());
      await scene.clock.advance(1000);
      expect(scene.copied).toEqual([1, 2]);
      scene.saver.afterCopy = () => scene.saver.commit();
      if (fails) scene.saver.fail(DENIED);
      else scene.saver.commit();
      await training;
      expect(scene.copied).toEqual(fails ? [1, 2, 2] : [1, 2]);
      expect(scene.preemption.report).toMatchObject({ durable: fails ? 2n : 1n, lost: null });
    }
  });

  it('the last save fails: it is said, and the loop ends all the same', async () => {
    const scene = new Scene();
    scene.saver.afterCopy = () => scene.saver.fail(DENIED);
    await scene.trainPreempted();
    expect(scene.preemption.report).toMatchObject({
      durable: null,
      lost: { why: 'could not be saved: not yours' },
    });
  });

  it('the last save does not fit: the loop ends at the deadline', async () => {
    const scene = new Scene();
    scene.saver.afterCopy = () => undefined;
    const training = scene.trainPreempted();
    await scene.clock.advance(DEADLINE_MS);
    await training;
    expect(scene.preemption.report?.text).toContain(
      'version 0 did not become durable in 25 s (1.0 of 4.0 MiB',
    );
  });

  it('what is in flight does not fit: nothing else is begun', async () => {
    const scene = new Scene();
    scene.saver.begin(9n);
    const training = scene.trainPreempted();
    await scene.clock.advance(DEADLINE_MS);
    await training;
    scene.saver.commit();
    await scene.clock.advance(0);
    expect(scene.preemption.report?.lost?.version).toBe(9n);
  });

  it('a step that is longer than the deadline is left, and what comes of it is of no interest', async () => {
    const scene = new Scene();
    const step = Promise.withResolvers<void>();
    const training = scene.trainPreempted(() => step.promise);
    await scene.clock.advance(DEADLINE_MS);
    await training;
    expect(scene.preemption.report?.text).toBe(
      'preempted: the last state could not be saved: the step in progress had not ended; ' +
        'no version is durable, all that was trained is lost',
    );
    step.resolve();
    await scene.clock.advance(0);
    expect([scene.copied, scene.coordinator.calls.filter((call) => call === 'monitor')]).toEqual([
      [],
      ['monitor'],
    ]);
  });

  it('a copy that is longer than the deadline is left as well', async () => {
    const scene = new Scene();
    scene.saver.beforeCopy = never;
    const training = scene.trainPreempted();
    await scene.clock.advance(DEADLINE_MS);
    await training;
    expect(scene.preemption.report?.lost?.why).toBe('could not be saved: it was not copied in time');
  });

  it('a step that fails is undone, and the state before it saved; an error that is no recoverable one is thrown', async () => {
    const scene = new Scene();
    await scene.trainPreempted(() => {
      throw new RecoverableError('a worker is gone');
    });
    expect([scene.state.value, scene.copied]).toEqual([1, [1]]);

    const other = new Scene();
    const error = new TypeError('x is undefined');
    const failing = other.trainPreempted(() => {
      throw error;
    });
    await expect(failing).rejects.toBe(error);
    expect([other.copied, other.preemption.report?.lost?.why]).toEqual([
      [],
      'could not be saved: x is undefined',
    ]);
  });

  it.each(['barrier', 'shouldRendezvous'])('no other worker is waited for: %s', async (call) => {
    const scene = new Scene();
    scene.state.savesEachStep = true;
    scene.coordinator.waiting[call] = never();
    const { saver, preemption } = scene;
    const training = scene.train({}, { saver, preemption });
    await scene.clock.advance(0);
    preemption.request();
    await training;
    expect([scene.state.value, scene.copied, preemption.report?.durable]).toEqual([1, [1], 0n]);
  });

  it.each(['rendezvous', 'allGather', 'barrier of the world'])(
    'a world that does not come to be is left, and before the first nothing is there to be saved: %s',
    async (call) => {
      const scene = new Scene();
      scene.coordinator.waiting[call] = never();
      const { saver, preemption } = scene;
      const training = scene.train({}, { saver, preemption });
      await scene.clock.advance(0);
      preemption.request();
      await training;
      expect([scene.state.value, scene.copied, preemption.report?.lost]).toEqual([0, [], null]);
    },
  );

  it('a rendezvous that was due to a failure is left as well, and what was reached is saved', async () => {
    const scene = new Scene();
    const { saver, preemption } = scene;
    const lost = () => {
      scene.coordinator.waiting['rendezvous'] = never();
      throw new RecoverableError('a worker is gone');
    };
    const training = scene.train({ 2: lost }, { saver, preemption });
    await scene.clock.advance(0);
    preemption.request();
    await training;
    expect([scene.state.value, scene.copied, preemption.report?.durable]).toEqual([1, [1], 0n]);
  });

  it('a save that is due in the step of the notice is made, and its barrier not waited for', async () => {
    const scene = new Scene();
    scene.state.savesEachStep = true;
    await scene.trainPreempted(() => {
      scene.coordinator.waiting['barrier'] = never();
    });
    expect(scene.copied).toEqual([1, 2]);
    expect(scene.coordinator.calls.slice(-2)).toEqual(['monitor', 'barrier']);
  });

  it('before training there is no wait', async () => {
    const scene = new Scene();
    const { saver, preemption } = scene;
    preemption.request();
    await preemption.finished;
    await scene.train({}, { saver, preemption });
    expect([scene.state.value, scene.coordinator.calls]).toEqual([0, []]);
  });
});
