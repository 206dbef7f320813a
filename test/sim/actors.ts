/**
 * What the simulated processes do. An actor whose process dies never ends. All others end in every
 * schedule.
 */

import { isCheckpointError, type RestoreTarget, type SaveResult } from '@holdfast/core';
import { type Authorship, filesOf, markIn, markOf } from './contents.ts';
import type { History } from './history.ts';
import { violated } from './invariant-error.ts';
import type { SimProcess, World } from './process.ts';
import type { AttemptStory } from './story.ts';
import type { Ledger } from './told.ts';

export interface Stage extends World {
  readonly history: History;
  readonly ledger: Ledger;
}

export interface WriterRole {
  readonly attempt: AttemptStory;
  readonly label: string;
  readonly index: number;
  readonly life: number;
  /** How many lives this writer has had in this attempt so far. */
  readonly lifeCount: () => number;
}

/**
 * Joins, restores and saves the attempt's versions one after the other. A zombie writer acts the
 * same, as it does not know that it is one.
 */
export async function write(stage: Stage, process: SimProcess, role: WriterRole): Promise<void> {
  const { manager, random } = process;
  let from = 0;
  if (random.fraction() < 0.4) {
    const latest = await codeOf(async () => {
      await manager.join();
      return (await manager.latest())?.version ?? -1n;
    });
    if (typeof latest === 'string' && latest === 'Fenced' && random.fraction() < 0.5) return;
    if (typeof latest === 'bigint') from = Number(latest) + 1;
  }
  const versions = role.attempt.versions.filter((version) => version >= from);
  const saver = new Saver(stage, process, role);
  if (random.fraction() < 0.12) await Promise.all(versions.map((version) => saver.save(version)));
  else for (const version of versions) await saver.save(version);
  await manager.close();
}

/** About the length of a save that runs beside two others. */
const STOP_STEPS_MAX = 60;

class Saver {
  readonly #stage: Stage;
  readonly #process: SimProcess;
  readonly #role: WriterRole;
  readonly #triesOf = new Map<number, number>();
  #isFenced = false;

  constructor(stage: Stage, process: SimProcess, role: WriterRole) {
    this.#stage = stage;
    this.#process = process;
    this.#role = role;
  }

  /** Saves. If the outcome is unknown, asks for it, and may try again. */
  async save(version: number): Promise<void> {
    const { random } = this.#process;
    for (let tries = 1 + random.integer(3); tries > 0; tries--) {
      if (this.#isFenced && random.fraction() < 0.5) return;
      const token = await this.#saveOnce(version);
      if (token === 'done') return;
      if (token !== '' && random.fraction() < 0.7) await this.#recover(version, token);
    }
  }

  /** Returns `done`, the token of an unknown outcome, or an empty string. */
  async #saveOnce(version: number): Promise<string> {
    const { story } = this.#stage;
    const { manager, random } = this.#process;
    this.#triesOf.set(version, (this.#triesOf.get(version) ?? 0) + 1);
    const buffers = filesOf(this.#author(version), story.isLarge);
    const wasFenced = this.#isFenced;
    const options = { version, buffers, timeoutMs: random.pick([0, 30, 200, 2000]) };
    try {
      const noWait = random.fraction() < 0.25;
      const result = await manager.save({ ...options, noWait, signal: this.#stopSoon(version) });
      if (wasFenced && result.isCommitted && !result.wasCommittedBefore)
        violated('I5', `${this.#process.name} was fenced, and yet committed ${version} later`);
      this.#succeeded(version, result);
      return result.isCommitted ? 'done' : '';
    } catch (error) {
      if (!isCheckpointError(error)) throw error;
      this.#tell(version, error.code);
      if (error.code === 'Fenced') this.#isFenced = true;
      const isFinal = error.code === 'Fenced' || error.code === 'Conflict';
      return isFinal ? 'done' : (error.context.token ?? '');
    }
  }

  /** May return a signal that stops the save: before, during or after it. */
  #stopSoon(version: number): AbortSignal | undefined {
    const { story, scheduler } = this.#stage;
    const { random } = this.#process;
    if (story.stopChance === 0 || random.fraction() >= story.stopChance) return undefined;
    const stop = new AbortController();
    const at = scheduler.steps + random.integer(STOP_STEPS_MAX);
    void scheduler.turn(this.#process, `stops its save of ${version}`, at).then(() => stop.abort());
    return stop.signal;
  }

  #succeeded(version: number, result: SaveResult): void {
    this.#tell(version, result.isCommitted ? 'committed' : 'delivered');
    const found = this.#stage.history.find(version);
    if (result.isCommitted && found?.epoch !== result.id.epoch)
      violated('I7', `${this.#process.name} was told epoch ${result.id.epoch} of version ${version}`);
  }

  async #recover(version: number, token: string): Promise<void> {
    const found = await codeOf(async () => (await this.#process.manager.recover(token)).outcome);
    this.#stage.trace.add(this.#process.name, `is told of ${version} by its token: ${found}`);
    if (['committed', 'not-committed', 'pending', 'unknown'].includes(found))
      this.#tell(version, `recovered: ${found}`);
  }

  #author(version: number): Authorship {
    const { label, index, life } = this.#role;
    const { livesWriteTheSame } = this.#stage.story;
    return { attempt: label, version, writer: index, ...(!livesWriteTheSame && { life }) };
  }

  #tell(version: number, outcome: string): void {
    const { ledger, story, trace } = this.#stage;
    const { label, index, lifeCount } = this.#role;
    trace.add(this.#process.name, `is told of ${version}: ${outcome}`);
    ledger.tell({
      process: this.#process.name,
      attempt: label,
      version,
      writer: index,
      mark: markOf(this.#author(version), story.isLarge),
      outcome,
      isOnlyTry: () => this.#triesOf.get(version) === 1 && (!story.livesWriteTheSame || lifeCount() === 1),
    });
  }
}

/** Finishes the versions that other writers have delivered. */
export async function survive(stage: Stage, process: SimProcess): Promise<void> {
  const { manager, random } = process;
  for (let calls = 1 + random.integer(3); calls > 0; calls--) {
    await stage.scheduler.turn(process, 'comes to commit', stage.scheduler.steps + random.integer(80));
    const version = random.fraction() < 0.5 ? undefined : 1 + random.integer(4);
    const told = await codeOf(async () => {
      const { id } = await manager.commit({ version, timeoutMs: random.pick([0, 50]) });
      const found = stage.history.find(Number(id.version));
      if (found?.epoch !== id.epoch)
        violated('I7', `${process.name} was told that ${id.version} is committed, but it is not`);
      return `committed ${id.version}`;
    });
    stage.trace.add(process.name, `is told: ${told}`);
  }
  await manager.close();
}

/**
 * Collects again and again with its own retention rules. Sometimes a version is marked to be kept
 * first.
 */
export async function tidy(stage: Stage, process: SimProcess): Promise<void> {
  const { manager, random } = process;
  for (let calls = 2 + random.integer(4); calls > 0; calls--) {
    await stage.scheduler.turn(process, 'comes to collect', stage.scheduler.steps + random.integer(60));
    const policy = { keepLast: random.pick([1, 1, 2]), graceMs: random.pick([0, 0, 20]) };
    const version = 1 + random.integer(4);
    const told = await codeOf(async () => {
      const keeping = random.fraction();
      if (keeping < 0.1) return await annotate(stage, process, { version, value: calls });
      if (keeping < 0.2) {
        await manager.admin.pin(version, process.name);
        return `pinned ${version}`;
      }
      const { retired, removed, swept } = await manager.admin.collect({ policy, force: true });
      return `retired ${retired}, removed ${removed}, deleted ${swept.objectCount}`;
    });
    stage.trace.add(process.name, `is told: ${told}`);
  }
  await manager.close();
}

/** Records a metric and a note under the name of the process, which no other process uses. */
async function annotate(
  { history }: Stage,
  { manager, name }: SimProcess,
  { version, value }: { readonly version: number; readonly value: number },
): Promise<string> {
  const id = await manager.admin.annotate(version, {
    metrics: { [name]: value },
    metadata: { [name]: `${value}` },
  });
  const found = history.annotationOf(id, name);
  if (found !== undefined && found !== value)
    violated('I7', `${name} was told that ${version} is annotated with ${value}, but it says ${found}`);
  return `annotated ${version}`;
}

/** Looks for the latest and restores it, again and again. */
export async function read(stage: Stage, process: SimProcess): Promise<void> {
  const { random } = process;
  for (let calls = 1 + random.integer(3); calls > 0; calls--) {
    await stage.scheduler.turn(process, 'comes to read', stage.scheduler.steps + random.integer(120));
    const isOlder = stage.story.collectors > 0 && random.fraction() < 0.7;
    const told = await codeOf(() =>
      isOlder
        ? readOlder(stage, process, 1 + random.integer(4))
        : readOnce(stage, process, random.fraction() < 0.5),
    );
    stage.trace.add(process.name, `is told: ${told}`);
  }
  await process.manager.close();
}

/**
 * Reads a version that retention may be about to retire. It is either missing or restored
 * completely.
 */
async function readOlder(stage: Stage, process: SimProcess, version: number): Promise<string> {
  const target = new MemoryTarget();
  const { top } = stage.history;
  await process.manager.restore({ version, to: target }).catch((error: unknown) => {
    if (target.isPublished) violated('I9', `${process.name}: a restore that failed was published`);
    const isGone = ['NotFound', 'Unavailable', 'TimedOut'].some((code) =>
      isCheckpointError(error, code as 'NotFound'),
    );
    // NotFound because of missing objects: the version was removed in spite of the lease.
    const isTakenAway = isCheckpointError(error, 'NotFound') && isCheckpointError(error.cause, 'Corrupt');
    if (isGone && !isTakenAway) throw error;
    violated('I3', `${process.name} cannot restore what it holds a lease on: ${error}`);
  });
  assertRestored(stage, process, target, version, Math.min(top, version));
  return `restored ${version}`;
}

async function readOnce(stage: Stage, process: SimProcess, asksFirst: boolean): Promise<string> {
  const { history } = stage;
  const { manager } = process;
  const topBefore = history.top;
  if (asksFirst) {
    const latest = await manager.latest();
    const version = Number(latest?.version ?? -1);
    if (version < topBefore)
      violated(
        'I2',
        `${process.name} is offered ${version} although ${topBefore} was committed before it asked`,
      );
    if (!latest) return 'nothing there';
  }
  const target = new MemoryTarget();
  const { version } = await manager.restore({ to: target }).catch((error: unknown) => {
    if (target.isPublished) violated('I9', `${process.name}: a restore that failed was published`);
    const isNothing = isCheckpointError(error, 'NotFound') && topBefore < 0;
    const isUnreachable = isCheckpointError(error, 'Unavailable') || isCheckpointError(error, 'TimedOut');
    if (isNothing || isUnreachable) throw error;
    violated('I1', `${process.name} cannot restore: ${error}`);
  });
  assertRestored(stage, process, target, Number(version), topBefore);
  return `restored ${version}`;
}

function assertRestored(
  { history }: Stage,
  process: SimProcess,
  target: MemoryTarget,
  version: number,
  topBefore: number,
): void {
  if (version < topBefore)
    violated('I2', `${process.name} restored ${version} although ${topBefore} was committed before`);
  if (!target.isPublished) violated('I9', `${process.name}: a restore succeeded and was not published`);
  const { marks } =
    history.find(version) ?? violated('I2', `${process.name} restored ${version}, which is not committed`);
  const names = Object.keys(target.files);
  const writers = new Set(names.map((name) => Number(/^w(\d+)\//.exec(name)?.[1])));
  if (writers.size !== marks.size)
    violated('I2', `${process.name} restored only the files of ${[...writers]}`);
  for (const [writer, mark] of marks) {
    const own = Object.fromEntries(
      Object.entries(target.files).filter(([name]) => name.startsWith(`w${writer}/`)),
    );
    if (markIn(own, version, writer) !== mark)
      violated('I9', `${process.name} restored files that are not ${mark}'s`);
  }
}

/** Keeps the restored files in memory. */
export class MemoryTarget implements RestoreTarget {
  readonly files: Record<string, Uint8Array> = {};
  isPublished = false;

  async open({ name, sizeBytes }: { name: string; sizeBytes: number }) {
    const file = new Uint8Array(sizeBytes);
    this.files[name] = file;
    return {
      writeAt: async (offsetBytes: number, bytes: Uint8Array) => file.set(bytes, offsetBytes),
      close: async () => undefined,
    };
  }

  async publish(): Promise<void> {
    this.isPublished = true;
  }

  async discard(): Promise<void> {} // memory goes by itself
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
