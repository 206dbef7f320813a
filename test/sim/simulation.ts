/**
 * Plays one seed: several processes on one bucket. The run is checked from outside after every
 * write.
 */

import { crc32c, createCheckpointManager, type RunManager } from '@holdfast/core';
import type { ObjectStore } from '@holdfast/core/contract';
import { MemoryBucket } from '@holdfast/core/store';
import { LateEffects, SeededRandom } from '@holdfast/testkit';
import { checkInvariants, viewOfBucket } from '../crash/invariants.ts';
import { MemoryTarget, read, type Stage, survive, tidy, type WriterRole, write } from './actors.ts';
import { filesOf, markIn, markOf } from './contents.ts';
import { type Committed, History } from './history.ts';
import { violated } from './invariant-error.ts';
import { simulateLives } from './lives.ts';
import { simulateLosing } from './losing.ts';
import { LookedAtStore, type Outcome, violationOf } from './played.ts';
import { SimProcess } from './process.ts';
import { reclaimMemory, reuseMemory } from './reused-memory.ts';
import { ScheduledStore } from './scheduled-store.ts';
import { type Scheduled, Scheduler } from './scheduler.ts';
import {
  type AttemptStory,
  collectingStory,
  drawnStory,
  drawStory,
  FIRST_COLLECTING_SEED,
  FIRST_DRAWN_SEED,
  FIRST_LIFE_SEED,
  FIRST_LOSING_SEED,
  FIRST_PAGING_SEED,
  FIRST_STOPPING_SEED,
  MANY_FILES_EVERY,
  MANY_FILES_REST,
  manyFilesStory,
  pagingStory,
  stoppingStory,
} from './story.ts';
import { Ledger } from './told.ts';
import { Trace } from './trace.ts';

/**
 * Makes each client of the bucket break the contract by replacing members of the store. For tests
 * of the simulation.
 */
export type Sabotage = (parts: {
  readonly sound: ObjectStore;
  readonly bucket: MemoryBucket;
  readonly random: SeededRandom;
}) => Partial<ObjectStore>;

const LIVES_MAX = 3;
const LAST_VERSION = 50;

reuseMemory();

/**
 * Seeds from `FIRST_LOSING_SEED`: the catalog is lost (losing.ts). Seeds from `FIRST_LIFE_SEED`:
 * trainers start a process for each save (lives.ts).
 */
export async function simulate(seed: number, sabotage?: Sabotage): Promise<Outcome> {
  if (seed >= FIRST_LIFE_SEED) return simulateLives(seed);
  if (seed >= FIRST_LOSING_SEED) return simulateLosing(seed);
  const simulation = new Simulation(seed, sabotage);
  const violation = await violationOf(simulation.play());
  reclaimMemory();
  const { stage } = simulation;
  return {
    seed,
    hash: stage.trace.hash,
    steps: stage.scheduler.steps,
    commits: stage.history.committed.length,
    told: stage.ledger.all.map(({ outcome }) => outcome),
    trace: stage.trace.lines,
    ...(violation !== undefined && { violation }),
  };
}

class Simulation {
  readonly stage: Stage;
  readonly #bucket: MemoryBucket;
  readonly #running = new Map<SimProcess, Promise<void>>();
  readonly #lives = new Map<string, number>();
  #failure: unknown;

  constructor(seed: number, sabotage: Sabotage | undefined) {
    const random = new SeededRandom(seed);
    const isDrawn = seed >= FIRST_DRAWN_SEED;
    const stops = !isDrawn && seed >= FIRST_STOPPING_SEED;
    const collects = !isDrawn && !stops && seed >= FIRST_COLLECTING_SEED;
    const drawn = drawStory(random);
    const collecting = collects ? collectingStory(drawn, 1 + (seed % 2)) : drawn;
    const calm = collects && seed >= FIRST_PAGING_SEED ? pagingStory(collecting) : collecting;
    const few = isDrawn ? drawnStory(drawn) : stops ? stoppingStory(drawn) : calm;
    const story = seed % MANY_FILES_EVERY === MANY_FILES_REST ? manyFilesStory(few) : few;
    const trace = new Trace();
    const lateEffects = new LateEffects();
    const scheduler = new Scheduler(random.fork(), trace, story.pressure, lateEffects);
    // A duplicated request that arrives late may restore a deleted object with the same bytes. It
    // is garbage and is never read.
    const bucket = new MemoryBucket({
      crc32c,
      clock: scheduler.clock,
      // A writer of a past epoch may claim again a key that a sweep has deleted. Its epoch is over,
      // so its writes do not count.
      mayReuseKey: ({ key, hasSameBytes }) =>
        hasSameBytes || (collects && /^writers\/|\/receipts\//.test(key)),
    });
    this.#bucket = bucket;
    const history = new History(bucket);
    const ledger = new Ledger(history);
    const capabilities = { maxListKeys: story.maxListKeys };
    const sabotageRandom = random.fork();
    const connect = () => {
      const open = () => new LookedAtStore(bucket, { capabilities }, () => this.#look());
      return Object.assign(open(), sabotage?.({ sound: open(), bucket, random: sabotageRandom }));
    };
    this.stage = { story, trace, scheduler, lateEffects, history, ledger, connect, random: random.fork() };
  }

  async play(): Promise<void> {
    const { story, scheduler } = this.stage;
    for (const attempt of story.attempts) {
      for (let index = 0; index < attempt.worldSize; index++)
        this.#beginWriter(attempt, index, attempt.notBefore);
    }
    for (let index = 0; index < story.survivors; index++) this.#begin({ name: `survivor-${index}` }, survive);
    for (let index = 0; index < story.readers; index++) this.#begin({ name: `reader-${index}` }, read);
    for (let index = 0; index < story.collectors; index++) this.#begin({ name: `collector-${index}` }, tidy);
    await scheduler.run(() => this.#failure !== undefined);
    if (this.#failure !== undefined) throw this.#failure;
    for (const process of this.#running.keys()) {
      if (!process.isDead) violated('I11', `${process.name} waits for ever`);
    }
    await this.#checkFromOutside();
    await scheduler.landAll();
    if (this.#failure !== undefined) throw this.#failure;
    await this.#checkFromOutside();
    await this.#finishWhatIsDelivered();
    await this.#goOn();
    await this.#checkFromOutside();
  }

  #beginWriter(attempt: AttemptStory, index: number, notBefore: number): void {
    const { story, random, scheduler } = this.stage;
    const key = `${attempt.label}/${index}`;
    const life = this.#lives.get(key) ?? 0;
    if (life >= LIVES_MAX) return;
    this.#lives.set(key, life + 1);
    const restart = () => {
      if (random.fraction() < story.restartChance)
        this.#beginWriter(attempt, index, scheduler.steps + random.integer(60));
    };
    const role: WriterRole = {
      attempt,
      label: attempt.isDrawn ? `${attempt.label}.${life}` : attempt.label,
      index,
      life,
      lifeCount: () => this.#lives.get(key) ?? 0,
    };
    const options = {
      name: `${attempt.label}.w${index}${life > 0 ? `~${life}` : ''}`,
      attempt: attempt.isDrawn ? undefined : attempt.label,
      writer: { index, count: attempt.worldSize },
      onDeath: restart,
    };
    this.#begin(options, (stage, process) => write(stage, process, role), notBefore);
    // A job scheduler that believes a process is dead starts another one.
    if (random.fraction() < story.doubleChance)
      this.#beginWriter(attempt, index, notBefore + random.integer(150));
  }

  #begin(
    options: ConstructorParameters<typeof SimProcess>[1],
    act: (stage: Stage, process: SimProcess) => Promise<void>,
    notBefore = 0,
  ): void {
    const { scheduler } = this.stage;
    const process = new SimProcess(this.stage, options);
    const acting = scheduler
      .turn(process, 'begins', notBefore)
      .then(() => act(this.stage, process))
      .catch((error: unknown) => {
        this.#failure ??= error;
      })
      .finally(() => this.#running.delete(process));
    this.#running.set(process, acting);
  }

  /** Called after every write. A violation ends the schedule. It is not reported to the process. */
  #look(): void {
    try {
      this.stage.history.lookAtCatalog();
    } catch (error) {
      this.#failure ??= error;
    }
  }

  async #checkFromOutside(): Promise<void> {
    const { history, ledger, story } = this.stage;
    history.lookAtAll();
    ledger.checkAll();
    if (story.isLarge) await checkInvariants(viewOfBucket(this.#bucket), ledger.forCrashChecks());
  }

  /** I10: a survivor finishes the versions that all writers have delivered. */
  async #finishWhatIsDelivered(): Promise<void> {
    const { history } = this.stage;
    const complete = history.completeVersions();
    const version = complete[0];
    if (version === undefined) return;
    await this.#healthily('survivor', async (manager) => {
      const found = await manager.commit({ version }).catch((error: unknown) => error);
      history.lookAtAll();
      if (history.find(version) === undefined)
        violated('I10', `version ${version} was delivered by all, but a survivor cannot commit it: ${found}`);
    });
  }

  /** I10: a new attempt takes the run over, restores everything and saves. */
  async #goOn(): Promise<void> {
    await this.#healthily('next-job', async (manager) => {
      await this.#saveLast(manager);
      for (const committed of this.stage.history.live) await restoreAll(manager, committed);
    });
  }

  async #saveLast(manager: RunManager): Promise<void> {
    const { history, ledger, story } = this.stage;
    const author = { attempt: 'next-job', version: LAST_VERSION, writer: 0 };
    await manager
      .save({ version: LAST_VERSION, buffers: filesOf(author, story.isLarge) })
      .catch((error: unknown) => violated('I10', `a new attempt cannot save: ${error}`));
    history.lookAtAll();
    const mark = markOf(author, story.isLarge);
    ledger.tell({ ...author, process: 'next-job', mark, outcome: 'committed', isOnlyTry: () => true });
  }

  /** A later process, without any faults. */
  async #healthily(name: string, act: (manager: RunManager) => Promise<void>): Promise<void> {
    const { scheduler, story, random } = this.stage;
    const process: Scheduled = { name, pace: 1, isDead: false };
    await using manager = createCheckpointManager({
      store: new ScheduledStore(this.stage.connect(), scheduler, process),
      attempt: name,
      settings: { ...story.settings, recordTimeoutMs: 4000, stallTimeoutMs: 1000, retryCountMax: 10 },
      clock: scheduler.clockOf(process),
      random: random.fork(),
    });
    scheduler.calmDown();
    let isOver = false;
    const acting = act(manager)
      // Close during the schedule: the manager's background work must be able to end.
      .finally(() => manager.close())
      .catch((error: unknown) => {
        this.#failure ??= error;
      })
      .finally(() => {
        isOver = true;
      });
    await scheduler.run(() => isOver);
    if (!isOver) violated('I11', `${name} waits for ever`);
    await acting;
    if (this.#failure !== undefined) throw this.#failure;
  }
}

async function restoreAll(manager: RunManager, { version, marks }: Committed): Promise<void> {
  const target = new MemoryTarget();
  await manager
    .restore({ version, to: target })
    .catch((error: unknown) => violated('I1', `version ${version} cannot be restored: ${error}`));
  for (const [writer, expected] of marks) {
    const own = Object.entries(target.files).filter(([name]) => name.startsWith(`w${writer}/`));
    if (markIn(Object.fromEntries(own), version, writer) !== expected)
      violated('I9', `version ${version} was restored with other files than ${expected}'s`);
  }
}
