/** Workers that meet through a real etcd. */

import { EtcdCoordinator, RecoverableError, StopException, train, type World } from '@holdfast/training';
import { expect, type TestContext, test, vi } from 'vitest';
import { COMPILE_CACHE } from '../e2e/holdfast-process.ts';
import { Program } from '../e2e/program.ts';
import { describeOnEtcd, type EtcdServer, startEtcd } from '../servers/etcd-server.ts';
import { freeze } from '../servers/freeze.ts';
import { SumState } from './sum-state.ts';

// Longer than any operation takes on a busy machine. No test waits for it.
const TIMEOUT_MS = 20_000;
const STATE = undefined as never; // the coordinator does not use it

let prefixCount = 0;
// Side by side, because most of the time is spent waiting for leases to expire.
describeOnEtcd('EtcdCoordinator', (server) => {
  interface Job {
    readonly options: ConstructorParameters<typeof EtcdCoordinator>[0];
    newWorker(change?: object): EtcdCoordinator;
  }

  function newJob(
    t: Pick<TestContext, 'onTestFinished'>,
    minWorkers: number,
    maxWorkers: number,
    change: object = {},
  ): Job {
    prefixCount += 1;
    const options = {
      ...{ endpoints: [server().endpoint], prefix: `test/meeting/${prefixCount}`, minWorkers, maxWorkers },
      ...{ timeoutMs: TIMEOUT_MS, lastCallMs: 0, ...change },
    };
    const newWorker = (other: object = {}) => {
      const worker = new EtcdCoordinator({ ...options, ...other });
      t.onTestFinished(() => worker.close());
      return worker;
    };
    return { options, newWorker };
  }

  /** One after the other, so that the first worker is rank 0. */
  async function meet(workers: readonly EtcdCoordinator[], job: Job): Promise<World[]> {
    const worlds: Promise<World>[] = [];
    for (const [index, worker] of workers.entries()) {
      worlds.push(worker.rendezvous());
      await vi.waitFor(async () => expect(await memberCount(job)).toBe(index + 1), TIMEOUT_MS);
    }
    return Promise.all(worlds);
  }

  async function keysOf({ options }: Job): Promise<readonly string[]> {
    const base64 = (text: string) => Buffer.from(text).toString('base64');
    const body = {
      key: base64(`${options.prefix}/`),
      range_end: base64(`${options.prefix}0`),
      keys_only: true,
    };
    const request = { method: 'POST', body: JSON.stringify(body) };
    const answer = await fetch(`${server().endpoint}/v3/kv/range`, request);
    const { kvs = [] } = (await answer.json()) as { kvs?: { key: string }[] };
    return kvs.map(({ key }) => Buffer.from(key, 'base64').toString());
  }

  async function memberCount(job: Job): Promise<number> {
    return (await keysOf(job)).filter((key) => key.includes('/meeting/members/')).length;
  }

  function placesOf(worlds: readonly World[]): string[] {
    return worlds.map(({ rank, size }) => `${rank} of ${size}`);
  }

  test.concurrent('workers meet, the first is rank 0, and gather what all bring, by rank, again and again', async (t) => {
    const job = newJob(t, 3, 3);
    const workers = [job.newWorker(), job.newWorker(), job.newWorker()];
    const worlds = await meet(workers, job);
    expect(placesOf(worlds)).toEqual(['0 of 3', '1 of 3', '2 of 3']);
    for (let round = 0; round < 4; round++) {
      const given = worlds.map((_, rank) => Uint8Array.of(round, rank, 255));
      const all = await Promise.all(worlds.map((world, rank) => world.allGather(given[rank] ?? Buffer.of())));
      expect(all.map((parts) => parts.map((part) => [...part]))).toEqual(
        worlds.map(() => given.map((each) => [...each])),
      );
      await Promise.all(worlds.map((world) => world.barrier()));
    }
    expect(await Promise.all(workers.map((worker) => worker.shouldRendezvous(STATE)))).toEqual([
      false,
      false,
      false,
    ]);
    // Keys that were read are deleted. The last two of each rank stay.
    expect((await keysOf(job)).filter((key) => key.includes('/gather/'))).toHaveLength(6);
  });

  test.concurrent('what a rank brought is read by the others though it has left', async (t) => {
    const job = newJob(t, 2, 2);
    const workers = [job.newWorker(), job.newWorker()];
    const [first, second] = await meet(workers, job);
    const gathered = first?.allGather(Buffer.from('a'));
    await vi.waitFor(async () => {
      expect((await keysOf(job)).filter((key) => key.includes('/gather/'))).toHaveLength(1);
    });
    const other = second?.allGather(Buffer.from('b'));
    await other;
    await workers[1]?.close();
    expect((await gathered)?.map(String)).toEqual(['a', 'b']);
    await expect(first?.barrier()).rejects.toThrow(RecoverableError);
  });

  test.concurrent('a new one comes: all ranks go to meet it after the same step, and keep their order', async (t) => {
    const job = newJob(t, 2, 3);
    const workers = [job.newWorker(), job.newWorker()];
    await meet(workers, job);
    expect(await workers[0]?.shouldRendezvous(STATE)).toBe(false);
    const third = job.newWorker();
    const coming = third.rendezvous();
    await vi.waitFor(async () => expect(await memberCount(job)).toBe(3), TIMEOUT_MS);
    // Rank 0 has already decided for this step.
    expect(await workers[1]?.shouldRendezvous(STATE)).toBe(false);
    expect(await Promise.all(workers.map((worker) => worker.shouldRendezvous(STATE)))).toEqual([true, true]);
    const [second, first] = [workers[1]?.rendezvous(), workers[0]?.rendezvous()];
    const worlds = await Promise.all([first, second, coming]);
    expect(placesOf(worlds as World[])).toEqual(['0 of 3', '1 of 3', '2 of 3']);
    expect((await keysOf(job)).filter((key) => key.includes('/vote/'))).toEqual([]);
  });

  test.concurrent('more than maxWorkers wait, and disturb no other, until one leaves', async (t) => {
    const job = newJob(t, 1, 2);
    const workers = [job.newWorker(), job.newWorker()];
    await meet(workers.slice(0, 1), job);
    const second = workers[1]?.rendezvous();
    await vi.waitFor(async () => expect(await workers[0]?.shouldRendezvous(STATE)).toBe(true), TIMEOUT_MS);
    await Promise.all([workers[0]?.rendezvous(), second]);
    const waiting = job.newWorker().rendezvous();
    await vi.waitFor(async () => expect(await memberCount(job)).toBe(3), TIMEOUT_MS);
    expect(await workers[0]?.shouldRendezvous(STATE)).toBe(false);
    await workers[1]?.close();
    expect(await workers[0]?.shouldRendezvous(STATE)).toBe(true);
    const worlds = await Promise.all([workers[0]?.rendezvous(), waiting]);
    expect(placesOf(worlds as World[])).toEqual(['0 of 2', '1 of 2']);
  });

  test.concurrent('three processes, one killed and one frozen: the third is told, and continues; the frozen one comes back as a new one', async (t) => {
    const job = newJob(t, 1, 3, { presenceSeconds: 2 });
    const startProcess = () => {
      const program = new Program('test/training/etcd-worker.ts', {
        args: [JSON.stringify(job.options)],
        env: { NODE_COMPILE_CACHE: COMPILE_CACHE },
      });
      t.onTestFinished(async () => {
        program.kill('SIGKILL');
        await program.ended;
      });
      return program;
    };
    const [killed, frozen] = [startProcess(), startProcess()];
    await Promise.all([killed.says(/ready/), frozen.says(/ready/)]);
    const worker = job.newWorker();
    await worker.rendezvous();
    const trainsWith = (size: number) =>
      vi.waitFor(async () => {
        if (await worker.shouldRendezvous(STATE)) await worker.rendezvous();
        expect(worker.world.size).toBe(size);
        await worker.world.barrier();
      }, TIMEOUT_MS);
    await trainsWith(3);

    killed.kill('SIGKILL');
    frozen.kill('SIGSTOP');
    // They may have been at the next barrier already, but not at all later ones.
    const goOn = async () => {
      for (;;) await worker.world.barrier();
    };
    await expect(goOn()).rejects.toThrow(RecoverableError);
    await trainsWith(1);
    frozen.kill('SIGCONT');
    await trainsWith(2);
  });

  test.concurrent('training is over: the others learn it at the next rendezvous, and no worker joins any more', async (t) => {
    const job = newJob(t, 2, 2);
    const workers = [job.newWorker(), job.newWorker()];
    await meet(workers, job);
    await workers[0]?.signalTrainingDone();
    expect(workers[0]?.shouldStopTraining()).toBe(true);
    await expect(workers[1]?.world.barrier()).rejects.toThrow(RecoverableError);
    expect(await workers[1]?.shouldRendezvous(STATE)).toBe(true);
    expect(workers[1]?.shouldStopTraining()).toBe(false);
    await expect(workers[1]?.rendezvous()).rejects.toThrow(StopException);
    expect(workers[1]?.shouldStopTraining()).toBe(true);
    await expect(job.newWorker().rendezvous()).rejects.toThrow(StopException);
  });

  test.concurrent('two train to the end of the data, and neither loses a step as the other one ends', async (t) => {
    const job = newJob(t, 2, 2);
    const onError = vi.fn();
    const trained = await Promise.all(
      [job.newWorker(), job.newWorker()].map((worker) => {
        worker.onError = onError;
        const state = new SumState(() => worker.world, { savesEachStep: false });
        const step = async () => {
          await state.trainOnce();
          await worker.world.barrier();
        };
        return train(worker, step, state);
      }),
    );
    expect(trained.map(({ totalSum, samples }) => [totalSum, samples.length])).toEqual([
      [410, 10],
      [410, 10],
    ]);
    expect(onError).not.toHaveBeenCalled();
  });

  test.concurrent('too few: TimedOut; another policy: InvalidArgument; more than 1 MiB: InvalidArgument', async (t) => {
    const alone = newJob(t, 2, 2, { timeoutMs: 300 });
    const lonely = alone.newWorker();
    await expect(lonely.rendezvous()).rejects.toMatchObject({
      code: 'TimedOut',
      message: expect.stringContaining('no world began within 300 ms'),
    });
    expect(await memberCount(alone)).toBe(0);
    const job = newJob(t, 1, 1);
    const world = await job.newWorker().rendezvous();
    await expect(job.newWorker({ maxWorkers: 2 }).rendezvous()).rejects.toMatchObject({
      code: 'InvalidArgument',
      message: 'maxWorkers 2: another worker has 1, and all must have the same',
    });
    await expect(world.allGather(new Uint8Array(1024 ** 2 + 1))).rejects.toMatchObject({
      code: 'InvalidArgument',
    });
    expect((await world.allGather(new Uint8Array(1024 ** 2)))[0]).toHaveLength(1024 ** 2);
  });

  test.concurrent('etcd is away: a gather is recoverable, a rendezvous is TimedOut; when it is back they meet', async (t) => {
    const own: EtcdServer = await startEtcd();
    t.onTestFinished(() => own.stop());
    const job = newJob(t, 1, 1, { endpoints: [own.endpoint], presenceSeconds: 1 });
    const worker = job.newWorker({ timeoutMs: 1000 });
    // The machine may be too busy to meet the deadline.
    await vi.waitFor(() => worker.rendezvous(), TIMEOUT_MS);
    await freeze(own.pid);
    await expect(worker.world.barrier()).rejects.toThrow(RecoverableError);
    expect(await worker.shouldRendezvous(STATE)).toBe(true);
    await expect(worker.rendezvous()).rejects.toMatchObject({ code: 'TimedOut' });
    process.kill(own.pid, 'SIGCONT');
    expect(await job.newWorker().rendezvous()).toMatchObject({ rank: 0 });
  });
});
