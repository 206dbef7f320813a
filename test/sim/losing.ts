/**
 * The catalog is lost in the middle of work, with faults in half of the seeds. An old writer that
 * was not stopped continues, several operators rebuild at once, new writers join and a collector
 * runs. The pace of each process changes often: the critical orders need many calls of one process
 * between two calls of another.
 */

import { crc32c, createCheckpointManager, type RunManager } from '@holdfast/core';
import { MemoryBucket } from '@holdfast/core/store';
import { FAULTS, type FaultPlan, LateEffects, SeededRandom } from '@holdfast/testkit';
import { MemoryTarget } from './actors.ts';
import { filesOf, markIn, markOf } from './contents.ts';
import { violated } from './invariant-error.ts';
import { collect, type LosingStage, rebuild, writeOn } from './losing-actors.ts';
import { drawLosingStory, type LosingStory } from './losing-story.ts';
import { LostRun } from './lost-run.ts';
import { LookedAtStore, type Outcome, violationOf } from './played.ts';
import { type ProcessOptions, SimProcess } from './process.ts';
import { reclaimMemory } from './reused-memory.ts';
import { ScheduledStore } from './scheduled-store.ts';
import { type Scheduled, Scheduler } from './scheduler.ts';
import { Trace } from './trace.ts';

const PACE_OF_STANDING = 0.02;
/** Pace of old writers when they move again. */
const PACE_OF_SPRINT = 6;
const SPRINT_STEPS = 12;
const RESTARTS_MAX = 2;
const LAST_VERSION = 50;
const OLD_ATTEMPT = 'job-0';

export async function simulateLosing(seed: number): Promise<Outcome> {
  const losing = new Losing(seed);
  const violation = await violationOf(losing.play());
  reclaimMemory();
  const { stage } = losing;
  return {
    seed,
    hash: stage.trace.hash,
    steps: stage.scheduler.steps,
    commits: stage.run.commitCount,
    told: stage.told,
    trace: stage.trace.lines,
    ...(violation !== undefined && { violation }),
  };
}

class Losing {
  readonly stage: LosingStage;
  readonly #story: LosingStory;
  readonly #bucket: MemoryBucket;
  readonly #running = new Set<SimProcess>();
  #isLost = false;
  /**
   * Step until which old writers hardly move: their pending requests then arrive during the
   * rebuilds.
   */
  #oldStandUntil = 0;
  #isAwake = false;
  #failure: unknown;

  constructor(seed: number) {
    const random = new SeededRandom(seed);
    const story = drawLosingStory(random);
    this.#story = story;
    const trace = new Trace();
    const lateEffects = new LateEffects();
    const scheduler = new Scheduler(random.fork(), trace, story.pressure, lateEffects);
    this.#bucket = new MemoryBucket({
      crc32c,
      // Steps count as time too, so that rebuilds that start one after the other draw different
      // numbers.
      clock: { nowMs: () => scheduler.clock.nowMs() + scheduler.steps },
      mayReuseKey: ({ key, hasSameBytes }) => hasSameBytes || /^catalog\/|^writers\/|\/receipts\//.test(key),
    });
    const run = new LostRun(this.#bucket);
    const capabilities = { maxListKeys: story.maxListKeys };
    const connect = () => new LookedAtStore(this.#bucket, { capabilities }, () => this.#look());
    this.stage = { story, trace, scheduler, lateEffects, connect, random: random.fork(), run, told: [] };
  }

  async play(): Promise<void> {
    await this.#writeOldRun();
    const { scheduler } = this.stage;
    for (const [index, versions] of this.#story.oldWriters.entries())
      this.#beginOldWriter(index === 0 ? OLD_ATTEMPT : `${OLD_ATTEMPT}-next`, versions);
    this.#lose(this.#story.lossAt);
    await scheduler.run(() => this.#failure !== undefined);
    this.#throwFailure();
    for (const process of this.#running) {
      if (!process.isDead) violated('I11', `${process.name} waits for ever`);
    }
    await scheduler.landAll();
    await this.#rebuildAtLast();
    await this.#goOn();
  }

  /** Writes the original run before anything goes wrong. */
  async #writeOldRun(): Promise<void> {
    await using manager = this.#open(OLD_ATTEMPT, { name: OLD_ATTEMPT, pace: 1, isDead: false }, true);
    for (const version of this.#story.oldVersions) await this.#save(manager, OLD_ATTEMPT, version);
  }

  /**
   * Called after every entry. In some stories, a rebuild that has begun makes old writers move
   * again.
   */
  #look(): void {
    const { run, scheduler, random } = this.stage;
    run.look();
    if (!this.#story.waitsForMark || this.#isAwake || !run.isMarked) return;
    this.#isAwake = true;
    this.#oldStandUntil = scheduler.steps + random.integer(5);
  }

  /** Loses the catalog once, at this step. */
  #lose(at: number): void {
    const store: Scheduled = { name: 'store', pace: 100, isDead: false };
    void this.stage.scheduler.turn(store, 'loses the catalog', at).then(() => {
      if (this.#isLost) return;
      this.#isLost = true;
      const steps = this.#story.waitsForMark ? 150 : this.stage.random.integer(80);
      this.#oldStandUntil = this.stage.scheduler.steps + steps;
      this.stage.run.loseCatalog();
      this.#beginRest();
    });
  }

  #beginRest(): void {
    const { scheduler, random } = this.stage;
    const soon = (steps: number) => scheduler.steps + random.integer(steps);
    for (let index = 0; index < this.#story.rebuilds; index++)
      this.#beginRebuild(`rebuild-${index}`, soon(4));
    for (const [index, versions] of this.#story.newWriters.entries()) {
      const attempt = `job-${index + 1}`;
      const options = { name: `${attempt}.w0`, attempt, writer: { index: 0, count: 1 } };
      const goal = { attempt, versions, triesMax: 5 };
      this.#begin(options, (stage, process) => writeOn(stage, process, goal), soon(40));
    }
    if (this.#story.collects) this.#begin({ name: 'collector' }, collect, soon(60));
  }

  #beginOldWriter(attempt: string, versions: readonly number[]): void {
    const options = { name: `${attempt}.w0`, attempt, writer: { index: 0, count: 1 } };
    const goal = { attempt, versions, triesMax: 2 };
    const mood = this.#moods();
    const pace = () => {
      const steps = this.stage.scheduler.steps - this.#oldStandUntil;
      if (steps < 0) return PACE_OF_STANDING;
      return this.#isLost && steps < SPRINT_STEPS ? PACE_OF_SPRINT : mood();
    };
    this.#begin(
      { ...options, pace, plan: this.#lateDecisions() },
      (stage, process) => writeOn(stage, process, goal),
      0,
    );
  }

  /**
   * Decisions of old writers arrive late repeatedly, or after their process has died. In some
   * stories the catalog is lost when such a decision is sent. In others it is lost when the
   * manifest before it is sent, which then arrives too late for the rebuilds.
   */
  #lateDecisions(): FaultPlan {
    const random = this.stage.random.fork();
    const { lossAtManifest } = this.#story;
    let callsLeft = this.#story.lossAtCall;
    return ({ operation, key }) => {
      const isDecision = key.startsWith('catalog/');
      if (operation !== 'create' || !(isDecision || key.includes('/manifest-'))) return undefined;
      if (isDecision !== lossAtManifest && callsLeft-- === 0) {
        this.#lose(0);
        return undefined;
      }
      if (!isDecision || this.#isLost || random.fraction() < 0.4) return undefined;
      return random.pick([FAULTS.delay, FAULTS.duplicateLate, FAULTS.duplicateLate, FAULTS.stopInFlight]);
    };
  }

  #beginRebuild(name: string, notBefore: number, restartsMax = RESTARTS_MAX): void {
    const { scheduler } = this.stage;
    const onDeath = () => {
      if (restartsMax > 0) this.#beginRebuild(`${name}~`, scheduler.steps, restartsMax - 1);
    };
    this.#begin({ name, onDeath }, rebuild, notBefore);
  }

  #begin(
    options: ProcessOptions,
    act: (stage: LosingStage, process: SimProcess) => Promise<void>,
    notBefore: number,
  ): void {
    const { stage } = this;
    const process = new SimProcess(stage, { pace: this.#moods(), ...options });
    this.#running.add(process);
    void stage.scheduler
      .turn(process, 'begins', notBefore)
      .then(() => act(stage, process))
      .catch((error: unknown) => {
        this.#failure ??= error;
      })
      .finally(() => this.#running.delete(process));
  }

  /** The pace alternates between fast and almost stopped, for a few steps each. */
  #moods(): () => number {
    const { scheduler } = this.stage;
    const random = this.stage.random.fork();
    let pace = 1;
    let until = 0;
    return () => {
      if (scheduler.steps >= until) {
        pace = random.pick(this.#story.paces);
        until = scheduler.steps + 1 + random.integer(12);
      }
      return pace;
    };
  }

  #throwFailure(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** If no rebuild has succeeded, an operator stops all processes and rebuilds once more. */
  async #rebuildAtLast(): Promise<void> {
    const { run, trace } = this.stage;
    const read = () => this.#healthily('reader', (manager) => manager.latest());
    const isThere = run.hasEntries && (await read().then(Boolean, () => false));
    if (isThere) return;
    if (run.isRebuilt)
      violated('I0', `the catalog that was made cannot be read: ${await read().catch(String)}`);
    const once = () => this.#healthily('person', (manager) => manager.admin.rebuildCatalog());
    const made = await once().catch((error: unknown) => {
      trace.add('person', `is told: ${error}`);
      run.loseCatalog(); // only entries that no process accepts
      return once();
    });
    run.tellRebuilt('person', made.runId);
  }

  /** I10: a new attempt saves, and restores everything that is offered. */
  async #goOn(): Promise<void> {
    await this.#healthily('next-job', async (manager) => {
      await this.#save(manager, 'next-job', LAST_VERSION).catch((error: unknown) =>
        violated('I10', `a new attempt cannot save: ${error}`),
      );
      for (const version of this.stage.run.checkNewest()) await this.#restore(manager, version);
    });
  }

  async #save(manager: RunManager, attempt: string, version: number): Promise<void> {
    const author = { attempt, version, writer: 0 };
    await manager.save({ version, buffers: filesOf(author, false), dedupe: 'off' });
    this.stage.run.tellCommitted(attempt, version, markOf(author, false));
  }

  async #restore(manager: RunManager, version: number): Promise<void> {
    const to = new MemoryTarget();
    await manager
      .restore({ version, to })
      .catch((error: unknown) => violated('I1', `version ${version} cannot be restored: ${error}`));
    const mark = markIn(to.files, version, 0);
    const expected = this.stage.run.markOf(version) ?? mark;
    if (mark !== expected) violated('I9', `version ${version} holds the files of ${mark}, not ${expected}`);
  }

  /** A later process, without any faults. */
  async #healthily<T>(name: string, act: (manager: RunManager) => Promise<T>): Promise<T> {
    const { scheduler } = this.stage;
    const manager = this.#open(name, { name, pace: 1, isDead: false }, false);
    scheduler.calmDown();
    let isOver = false;
    const acting = act(manager)
      .finally(() => manager.close())
      .finally(() => {
        isOver = true;
      });
    acting.catch(() => undefined);
    await scheduler.run(() => isOver);
    if (!isOver) violated('I11', `${name} waits for ever`);
    this.#throwFailure();
    return acting;
  }

  /** `isDirect`: its calls do not wait for a turn. */
  #open(attempt: string, process: Scheduled, isDirect: boolean): RunManager {
    const { scheduler, connect, story, random } = this.stage;
    const store = connect();
    return createCheckpointManager({
      store: isDirect ? store : new ScheduledStore(store, scheduler, process),
      attempt,
      settings: { ...story.settings, recordTimeoutMs: 4000, stallTimeoutMs: 1000, retryCountMax: 10 },
      clock: scheduler.clockOf(process),
      random: random.fork(),
    });
  }
}
