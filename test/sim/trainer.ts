/** A trainer that starts a new process for each call, all under one life. */

import { isCheckpointError, type RunManager, type SaveResult } from '@holdfast/core';
import type { SeededRandom } from '@holdfast/testkit';
import { MemoryTarget } from './actors.ts';
import { violated } from './invariant-error.ts';
import { filesOf, type LifeRun, markOf } from './life-run.ts';
import type { LifeStory, TrainerStory } from './life-story.ts';
import { drawMishap } from './mishaps.ts';
import { type ProcessOptions, SimProcess, type World } from './process.ts';

export interface LifeStage extends World {
  readonly story: LifeStory;
  readonly run: LifeRun;
  readonly told: string[];
  /** By life: the version that its trainer restored. −1: it found none. */
  readonly restored: Map<number, number>;
  /** Saves reported as delivered, for the checks at the end. */
  readonly delivered: { process: string; mark: string; at: { lineage: number; epoch: number } }[];
  readonly alive: Set<SimProcess>;
}

const TRIES_MAX = 3;

export class Trainer {
  readonly #stage: LifeStage;
  readonly #story: TrainerStory;
  readonly #random: SeededRandom;
  /** Tokens of saves whose outcome the trainer does not know. */
  readonly #tokens: { readonly mark: string; readonly token: string }[] = [];
  #processes = 0;
  #isFenced = false;

  constructor(stage: LifeStage, story: TrainerStory) {
    this.#stage = stage;
    this.#story = story;
    this.#random = stage.random.fork();
  }

  get name(): string {
    const { attempt, writer, life } = this.#story;
    return `${attempt}.w${writer}.life-${life}`;
  }

  /** Continues from the restored version, and saves each version in a new process. */
  async train(): Promise<void> {
    const base = this.#story.restores ? await this.#restore() : -1;
    if (base === undefined) return;
    const { versions, overlapChance } = this.#stage.story;
    const saving: Promise<void>[] = [];
    for (const version of versions.filter((each) => each > base)) {
      if (this.#isFenced) break;
      const save = this.#save(version);
      // A violation may come while another save is awaited. `Promise.all` throws it then.
      save.catch(() => undefined);
      saving.push(save);
      if (this.#random.fraction() >= overlapChance) await save;
    }
    await Promise.all(saving);
    for (const { mark, token } of this.#tokens) await this.#recover(mark, token);
  }

  /** `undefined`: the trainer cannot continue. */
  async #restore(): Promise<number | undefined> {
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const found = await this.#inProcess(async (manager) =>
        Number((await manager.restore({ to: new MemoryTarget() })).version),
      );
      const base = found === 'NotFound' ? -1 : found;
      this.#stage.trace.add(this.name, `has restored: ${base}`);
      if (base === 'Fenced') {
        this.#stage.run.checkOvertaken(this.name, this.#story);
        return undefined;
      }
      if (typeof base !== 'number') continue;
      this.#stage.restored.set(this.#story.life, base);
      return base;
    }
    return undefined;
  }

  async #save(version: number): Promise<void> {
    const { changeChance, twiceChance } = this.#stage.story;
    let variant = 0;
    const vary = () => {
      if (this.#random.fraction() < changeChance) variant++;
      return variant;
    };
    for (let tries = 0; tries < TRIES_MAX && !this.#isFenced; tries++) {
      const saving = [this.#saveOnce(version, variant)];
      if (this.#random.fraction() < twiceChance) {
        const soon = this.#stage.scheduler.steps + this.#random.integer(30);
        saving.push(this.#saveOnce(version, vary(), soon));
      }
      const [isDone] = await Promise.all(saving);
      if (isDone && this.#random.fraction() < 0.8) return;
      vary();
    }
  }

  /** True if the save needs no repeat. */
  async #saveOnce(version: number, variant: number, notBefore = 0): Promise<boolean> {
    const { run, story } = this.#stage;
    const { attempt, writer, life } = this.#story;
    const mark = markOf(attempt, { version, writer, life, variant });
    const wasIn = run.isOffered(mark);
    let token = '';
    const options = {
      version,
      buffers: filesOf(mark, story.isLarge),
      timeoutMs: this.#random.pick([0, 200]),
    };
    const noWait = this.#random.fraction() < 0.8;
    const call = (manager: RunManager) =>
      manager.save({ ...options, noWait }).catch((error: unknown) => {
        if (isCheckpointError(error)) token = error.context.token ?? '';
        throw error;
      });
    const told = await this.#inProcess(call, notBefore);
    this.#check(mark, told, wasIn);
    if (token !== '') this.#tokens.push({ mark, token });
    if (token !== '' && this.#random.fraction() < 0.5) await this.#recover(mark, token);
    return typeof told === 'object' || told === 'Fenced' || told === 'Conflict';
  }

  async #recover(mark: string, token: string): Promise<void> {
    const told = await this.#inProcess(async (manager) => (await manager.recover(token)).outcome);
    this.#stage.told.push(`recovered: ${told}`);
    if (told === 'committed' && !this.#stage.run.has(mark))
      violated('I7', `${this.name} was told by its token that ${mark} is committed, but it is not`);
  }

  #check(mark: string, told: SaveResult | string, wasIn: boolean): void {
    const { run, trace } = this.#stage;
    const outcome = typeof told === 'string' ? told : told.isCommitted ? 'committed' : 'delivered';
    this.#stage.told.push(outcome);
    trace.add(this.name, `is told of ${mark}: ${outcome}`);
    if (outcome === 'committed' && !run.has(mark))
      violated('I7', `${this.name} was told that ${mark} is committed, but it is not`);
    // A rollback may have left the version behind in the meantime. The life is then fenced.
    if ((outcome === 'Fenced' || outcome === 'Conflict') && wasIn && run.isOffered(mark))
      violated('I7', `${this.name} was told ${outcome} of ${mark}, which was committed before it asked`);
    if (outcome === 'Fenced') {
      run.checkOvertaken(this.name, this.#story);
      this.#isFenced = true;
    }
    if (typeof told === 'string' || told.wasCommittedBefore) return;
    const { lineage, epoch } = told.id;
    run.checkDelivered(this.name, mark, { lineage, epoch });
    this.#stage.delivered.push({ process: this.name, mark, at: { lineage, epoch } });
  }

  /** The result of a call in a new process, the code of its error, or that the process has died. */
  async #inProcess<T>(call: (manager: RunManager) => Promise<T>, notBefore = 0): Promise<T | string> {
    const { scheduler, alive, story } = this.#stage;
    const { attempt, writer, life } = this.#story;
    const died = Promise.withResolvers<string>();
    const options: ProcessOptions = {
      name: `${this.name}#${this.#processes++}`,
      attempt,
      life: `life-${life}`,
      writer: { index: writer, count: story.worldSize },
      onDeath: () => died.resolve('died'),
      ...drawMishap(story, scheduler, this.#random),
    };
    const process = new SimProcess(this.#stage, options);
    alive.add(process);
    const called = scheduler
      .turn(process, 'begins', notBefore)
      .then(() => codeOf(() => call(process.manager)))
      .finally(() => process.manager.close());
    const over = called.finally(() => alive.delete(process));
    return Promise.race([over, died.promise]);
  }
}

/** Returns the result of the call, or the code of its error. */
async function codeOf<T>(call: () => Promise<T>): Promise<T | string> {
  try {
    return await call();
  } catch (error) {
    if (isCheckpointError(error)) return error.code;
    throw error;
  }
}
