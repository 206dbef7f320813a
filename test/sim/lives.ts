/**
 * Trainers that start a process for each call, and supervisors that restart a trainer under a new
 * life, often while the previous one still runs. Beside them, an operator rolls the run back and a
 * collector runs. A second attempt may take the run over.
 */

import { crc32c, type RunManager } from '@holdfast/core';
import { MemoryBucket } from '@holdfast/core/store';
import { LateEffects, SeededRandom } from '@holdfast/testkit';
import { MemoryTarget } from './actors.ts';
import { violated } from './invariant-error.ts';
import { filesOf, LifeRun, lifeOf } from './life-run.ts';
import { drawLifeStory, type LifeStory } from './life-story.ts';
import { LookedAtStore, type Outcome, violationOf } from './played.ts';
import { SimProcess } from './process.ts';
import { reclaimMemory } from './reused-memory.ts';
import { type Scheduled, Scheduler } from './scheduler.ts';
import { Trace } from './trace.ts';
import { type LifeStage, Trainer } from './trainer.ts';

export async function simulateLives(seed: number): Promise<Outcome> {
  const lives = new Lives(seed);
  const violation = await violationOf(lives.play());
  reclaimMemory();
  const { stage } = lives;
  return {
    seed,
    hash: stage.trace.hash,
    steps: stage.scheduler.steps,
    commits: stage.run.committed.length,
    told: stage.told,
    trace: stage.trace.lines,
    ...(violation !== undefined && { violation }),
  };
}

/** Settings for calls without any faults. */
const CALM = { recordTimeoutMs: 4000, stallTimeoutMs: 1000 };

class Lives {
  readonly stage: LifeStage;
  readonly #story: LifeStory;
  #failure: unknown;

  constructor(seed: number) {
    const random = new SeededRandom(seed);
    const story = drawLifeStory(random);
    this.#story = story;
    const trace = new Trace();
    const lateEffects = new LateEffects();
    const scheduler = new Scheduler(random.fork(), trace, story.pressure, lateEffects);
    const bucket = new MemoryBucket({
      crc32c,
      clock: scheduler.clock,
      mayReuseKey: ({ key, hasSameBytes }) => hasSameBytes || /^writers\/|\/receipts\//.test(key),
    });
    const run = new LifeRun(bucket);
    const capabilities = { maxListKeys: story.maxListKeys };
    const look = () => {
      try {
        run.look();
      } catch (error) {
        this.#failure ??= error;
      }
    };
    const connect = () => new LookedAtStore(bucket, { capabilities }, look);
    const world = { story, trace, scheduler, lateEffects, connect, random: random.fork() };
    this.stage = { ...world, run, told: [], restored: new Map(), delivered: [], alive: new Set() };
  }

  async play(): Promise<void> {
    const { scheduler, alive } = this.stage;
    const { trainers, rollbacks, collects } = this.#story;
    for (const story of trainers) {
      const trainer = new Trainer(this.stage, story);
      this.#begin(trainer.name, story.notBefore, () => trainer.train());
    }
    for (const at of rollbacks) this.#command('person', at, rollBack);
    for (const at of collects) this.#command('collector', at, collect);
    await scheduler.run(() => this.#failure !== undefined);
    this.#throwFailure();
    for (const process of alive) if (!process.isDead) violated('I11', `${process.name} waits for ever`);
    await scheduler.landAll();
    this.#throwFailure();
    this.#checkAll();
    await this.#finish();
  }

  #begin(name: string, notBefore: number, act: () => Promise<unknown>): void {
    const actor: Scheduled = { name, pace: 1, isDead: false };
    void this.stage.scheduler
      .turn(actor, 'begins', notBefore)
      .then(act)
      .catch((error: unknown) => {
        this.#failure ??= error;
      });
  }

  /** A call by a process that is not a writer. It may end with any declared error. */
  #command(name: string, at: number, call: (process: SimProcess) => Promise<unknown>): void {
    const process = new SimProcess(this.stage, { name: `${name}-${at}` });
    this.#begin(process.name, at, async () => {
      const told = await call(process).then(
        () => 'done',
        (error: { code?: string }) => error.code ?? violated('crash', String(error)),
      );
      this.stage.trace.add(process.name, `is told: ${told}`);
      await process.manager.close();
    });
  }

  #throwFailure(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  #checkAll(): void {
    const { run, delivered } = this.stage;
    run.look();
    run.checkUploads();
    for (const { process, mark, at } of delivered) run.checkNotVoided(process, mark, at);
    this.#checkLives();
  }

  /**
   * I6: a life saves in one lineage. No version of a former life lies between the versions that it
   * restored and saved.
   */
  #checkLives(): void {
    const { run, restored } = this.stage;
    const lineageOf = new Map<number, number>();
    for (const { mark, at } of this.stage.delivered) lineageOf.set(lifeOf(mark), at.lineage);
    for (const { lineage, epoch, version, marks } of run.committed) {
      for (const [writer, mark] of marks) {
        const life = lifeOf(mark);
        const first = lineageOf.get(life) ?? lineage;
        if (first !== lineage) violated('I6', `life ${life} of lineage ${first} is in lineage ${lineage}`);
        lineageOf.set(life, lineage);
        const base = restored.get(life) ?? Number.POSITIVE_INFINITY;
        const between = run.committed.find(
          (each) =>
            each.lineage === lineage &&
            each.epoch === epoch &&
            each.version > base &&
            each.version < version &&
            lifeOf(each.marks.get(writer) ?? '') !== life,
        );
        if (between)
          violated(
            'I6',
            `life ${life} restored ${base} and is in ${version}; ${between.version} is of another`,
          );
      }
    }
  }

  /**
   * I10: a version that all writers have delivered can be finished. I1: committed versions can be
   * restored.
   */
  async #finish(): Promise<void> {
    const { scheduler, run, story } = this.stage;
    scheduler.calmDown();
    const calm = { ...this.stage, story: { ...story, rates: {}, settings: { ...story.settings, ...CALM } } };
    const process = new SimProcess(calm, { name: 'survivor' });
    let isOver = false;
    const acting = (async () => {
      const [version] = run.completeVersions();
      if (version !== undefined) await this.#commit(process.manager, version);
      const last = run.committed.at(-1);
      if (last) await this.#restore(process.manager);
      await process.manager.close();
    })()
      .catch((error: unknown) => {
        this.#failure ??= error;
      })
      .finally(() => {
        isOver = true;
      });
    await scheduler.run(() => isOver);
    this.#throwFailure();
    if (!isOver) violated('I11', 'the survivor waits for ever');
    await acting;
  }

  async #commit(manager: RunManager, version: number): Promise<void> {
    const found = await manager.commit({ version }).catch((error: unknown) => String(error));
    this.stage.run.look();
    if (typeof found === 'string')
      violated('I10', `version ${version} was delivered by all, but cannot be committed: ${found}`);
  }

  async #restore(manager: RunManager): Promise<void> {
    const target = new MemoryTarget();
    const { version } = await manager
      .restore({ to: target })
      .catch((error: unknown) => violated('I1', `the latest cannot be restored: ${error}`));
    const committed = this.stage.run.committed.findLast((each) => each.version === Number(version));
    for (const mark of committed?.marks.values() ?? []) {
      for (const [name, bytes] of Object.entries(filesOf(mark, this.#story.isLarge)))
        if (Buffer.compare(target.files[name] ?? new Uint8Array(), bytes) !== 0)
          violated('I9', `${name} of version ${version} was restored with other bytes than ${mark}'s`);
    }
  }
}

/** Rolls back to the latest version or to an earlier one. */
async function rollBack({ manager, random }: SimProcess): Promise<void> {
  const versions = (await manager.list()).map(({ version }) => version);
  if (versions.length === 0) return;
  await manager.admin.rollback({ to: random.pick(versions), reason: 'the loss went up' });
}

async function collect({ manager }: SimProcess): Promise<void> {
  await manager.admin.collect({ policy: { keepLast: 2 }, force: true });
}
