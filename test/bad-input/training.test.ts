/** Every call of the training package, and each of its options, with invalid values. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MemoryStore } from '@holdfast/core/store';
import {
  AsyncSaver,
  afterSave,
  anyOf,
  atSteps,
  beginSchedule,
  broadcast,
  DirectoryStaging,
  EtcdCoordinator,
  EtcdElection,
  everyMs,
  everySteps,
  FileSystemCheckpointManager,
  LocalCoordinator,
  MemoryStaging,
  MultiProcessCoordinator,
  onImprovement,
  Preemption,
  RendezvousServer,
  StaticElection,
  StoreElection,
  saveModel,
  setCheckpointManager,
  train,
} from '@holdfast/training';
import { afterAll, describe, expect, test } from 'vitest';
import { bytes, newBucket, open } from '../manager/memory-run.ts';
import { expectRefused, type Odd } from './values.ts';

const NEEDED: Odd[] = [];
const OPTIONAL: Odd[] = ['undefined'];
const OBJECT: Odd[] = ['undefined', '{}'];
const directory = mkdtempSync(join(tmpdir(), 'bad-input-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

type Options = Readonly<Record<string, readonly Odd[]>>;

async function eachOption(options: Options, base: object, call: (options: never) => unknown): Promise<void> {
  for (const [option, accepted] of Object.entries(options)) {
    await expectRefused(accepted, (value) => call({ ...base, [option]: value } as never));
  }
}

describe('saving', () => {
  test('AsyncSaver', async () => {
    await using manager = open(newBucket());
    const options = { staging: OPTIONAL, whileSaving: OPTIONAL, sloMs: OPTIONAL, stallTimeoutMs: OPTIONAL };
    const others = { onStall: OPTIONAL, logger: OPTIONAL, clock: OPTIONAL };
    await expectRefused(NEEDED, (value) => new AsyncSaver(value));
    await expectRefused(OBJECT, (value) => new AsyncSaver(manager, value));
    await eachOption({ ...options, ...others }, {}, (given) => new AsyncSaver(manager, given));
    const saver = new AsyncSaver(manager);
    await expectRefused(NEEDED, (value) => saver.saveAsync(value));
    await expectRefused(NEEDED, (buffers) => saver.saveAsync({ buffers }));
    const refusal = (name: string) => ({
      code: 'InvalidArgument',
      message: expect.stringContaining(`"${name}"`),
    });
    for (const option of [{ noWait: true }, { staging: new MemoryStaging() }]) {
      const refused = refusal(Object.keys(option)[0] as string);
      const saved = saver.saveAsync({ buffers: { a: bytes(1) }, ...option });
      await expect(saved).rejects.toMatchObject(refused);
    }
    for (const option of [{ noWait: true }, { files: {} }, { buffers: {} }, { pause: () => undefined }]) {
      const refused = refusal(Object.keys(option)[0] as string);
      await expect(saver.saveStreams(async () => undefined, option as object)).rejects.toMatchObject(refused);
    }
    await expectRefused(OPTIONAL, (signal) => saver.saveAsync({ buffers: { a: bytes(1) }, signal } as never));
    await expectRefused(NEEDED, (value) => saver.saveStreams(value));
  });

  test('stagings', async () => {
    await expectRefused(OBJECT, (value) => new MemoryStaging(value));
    await expectRefused(OPTIONAL, (bytesMax) => new MemoryStaging({ bytesMax }));
    await expectRefused(NEEDED, (value) => new DirectoryStaging(value));
    const options = { directory: [] as Odd[], bytesMax: OPTIONAL, fileSystem: OPTIONAL };
    await eachOption(options, { directory }, (given) => new DirectoryStaging(given));
  });

  test('Preemption', async () => {
    await using manager = open(newBucket());
    const saver = new AsyncSaver(manager);
    const dispose = (options: never) => new Preemption(options)[Symbol.dispose]();
    await expectRefused(NEEDED, dispose);
    const options = {
      ...{ saver: NEEDED, deadlineMs: ['0', '1.5'] as Odd[] },
      ...{ signals: ['undefined', '[]'] as Odd[], clock: OPTIONAL, logger: OPTIONAL },
    };
    await eachOption(options, { saver, deadlineMs: 1, signals: [] }, dispose);
    await expectRefused(NEEDED, (value) => dispose({ saver, deadlineMs: 1, signals: [value] } as never));
    await expectRefused(['undefined', '{}'], (value) =>
      new Preemption({ saver, deadlineMs: 1, signals: [] }).request(value),
    );
    await expectRefused(['undefined', '0', '1.5'], (deadlineMs) =>
      new Preemption({ saver, deadlineMs: 1, signals: [] }).request({ deadlineMs }),
    );
  });
});

describe('elections', () => {
  test.each([
    ['StaticElection', () => new StaticElection()],
    ['StoreElection', () => new StoreElection(new MemoryStore(newBucket()))],
  ])('%s', async (_name, make) => {
    const election = make();
    await expectRefused(['space'], (value) => election.requestSave(value, 1000));
    await expectRefused(NEEDED, (value) => election.requestSave('a', value));
  });

  test('StoreElection', async () => {
    const store = new MemoryStore(newBucket());
    await expectRefused(NEEDED, (value) => new StoreElection(value));
    await expectRefused(OBJECT, (value) => new StoreElection(store, value));
    const ask = (options: never) => new StoreElection(store, options).requestSave('a', 60_000);
    const options = {
      settings: OBJECT,
      clock: OPTIONAL,
      random: OPTIONAL,
      logger: OPTIONAL,
      process: OPTIONAL,
    };
    await eachOption(options, {}, ask);
  });

  test('etcd', async () => {
    const endpoints = ['http://127.0.0.1:1'];
    const options = { endpoints: NEEDED, clock: OPTIONAL, timeoutMs: OPTIONAL };
    await expectRefused(NEEDED, (value) => new EtcdElection(value));
    const ofElection = { ...options, key: ['space'] as Odd[], timeoutMs: ['undefined', '1.5'] as Odd[] };
    await eachOption(ofElection, { endpoints, key: 'k' }, (given) => new EtcdElection(given));
    await expectRefused(NEEDED, (value) => new EtcdElection({ endpoints: [value], key: 'k' }));
    await expectRefused(NEEDED, (value) => new EtcdCoordinator(value));
    const ofCoordinator = {
      ...{ ...options, prefix: ['space'] as Odd[], minWorkers: NEEDED, maxWorkers: NEEDED },
      ...{ lastCallMs: ['undefined', '0'] as Odd[], presenceSeconds: OPTIONAL },
    };
    const base = { endpoints, prefix: 'p', minWorkers: 1, maxWorkers: 2 };
    await eachOption(ofCoordinator, base, (given) => new EtcdCoordinator(given));
  });

  test('saveModel', async () => {
    const write = () => Promise.resolve();
    await expectRefused(NEEDED, (value) => saveModel(value, 'a', write));
    await expectRefused(NEEDED, (value) => saveModel(directory, value, write));
    await expectRefused(NEEDED, (value) => saveModel(directory, 'a', value));
    await expectRefused(NEEDED, (value) => saveModel(directory, 'a', write, value));
  });
});

describe('a rendezvous', () => {
  test('its server', async () => {
    const start = async (options: never) => (await RendezvousServer.start(options)).close();
    await expectRefused(OBJECT, start);
    await eachOption({ port: ['undefined', '0'], lastCallMs: ['undefined', '0'] }, {}, start);
  });

  test('its workers', async () => {
    const base = { port: 1, minWorkers: 1, maxWorkers: 1, timeoutMs: 1 };
    const options = { minWorkers: NEEDED, maxWorkers: NEEDED, port: NEEDED };
    await expectRefused(NEEDED, (value) => MultiProcessCoordinator.connect(value));
    await eachOption(options, base, (given) => MultiProcessCoordinator.connect(given));
    for (const host of [null, 5, [], {}]) {
      const connecting = MultiProcessCoordinator.connect({ ...base, host } as never);
      await expect(connecting).rejects.toMatchObject({ code: 'InvalidArgument' });
    }
  });

  test('broadcast', async () => {
    const world = await new LocalCoordinator().rendezvous();
    await expectRefused(NEEDED, (value) => broadcast(value, 0, bytes(1)));
    await expectRefused(['0'], (value) => broadcast(world, value, bytes(1)));
    await expectRefused(NEEDED, (value) => broadcast(world, 0, value));
  });
});

describe('a train loop', () => {
  const state = { save: () => undefined, load: () => undefined };
  const coordinator = Object.assign(new LocalCoordinator(), { shouldStopTraining: () => true });
  const step = () => undefined;
  const run = (options: never) => train(coordinator as never, step, state as never, options);

  test('what it is given', async () => {
    await expectRefused(NEEDED, (value) => train(value, step, state as never));
    await expectRefused(['function'], (value) => train(coordinator as never, value, state as never));
    await expectRefused(NEEDED, (value) => train(coordinator as never, step, value));
    await expectRefused(OBJECT, run);
    const options = { failuresMax: OPTIONAL, logger: OPTIONAL, saver: OPTIONAL, preemption: OPTIONAL };
    await eachOption(options, {}, run);
    await expectRefused(['null', 'function'], (value) => setCheckpointManager(value));
    await expectRefused([], (value) => new FileSystemCheckpointManager(value));
  });

  test('schedules', async () => {
    const begin = { step: 0, nowMs: 0 };
    await expectRefused(NEEDED, (value) => everySteps(value));
    await expectRefused(NEEDED, (value) => atSteps(value));
    await expectRefused(NEEDED, (value) => atSteps([value]));
    await expectRefused(['1.5', '2^53'], (value) => everyMs(value));
    await expectRefused(['space'], (value) => onImprovement(value, { better: 'lower' }));
    await expectRefused(NEEDED, (value) => onImprovement('a', value));
    const options = { better: NEEDED, minDelta: ['undefined', '0', '1.5', '2^53'] as Odd[] };
    await eachOption(options, { better: 'lower' }, (given) => onImprovement('a', given));
    await expectRefused(NEEDED, (value) => anyOf(value));
    await expectRefused(NEEDED, (value) => beginSchedule(value));
    await expectRefused(['0'], (value) => beginSchedule({ ...begin, step: value }));
    await expectRefused(['undefined', '[]'], (value) => beginSchedule(begin, value));
    const saved = beginSchedule(begin);
    await expectRefused(NEEDED, (value) => afterSave(value, begin));
    await expectRefused(NEEDED, (value) => afterSave(saved, value));
    await expectRefused(['0'], (value) => afterSave(saved, { ...begin, step: value }));
  });
});
