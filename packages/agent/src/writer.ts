/** One life of one writer: its manager, its saves one after another, and those who listen. */

import { createHash } from 'node:crypto';
import {
  CheckpointError,
  type CheckpointSummary,
  isCheckpointError,
  isOfAnotherRun,
  type JoinResult,
  type LocalFiles,
  type RunManager,
  systemClock,
  toCheckpointError,
  toVersion,
} from '@holdfast/core';
import { localFiles } from '@holdfast/local-files';
import type { SaveRequest, SealRequest, SourceFile, WriterView } from './api/shapes.ts';
import { ofFormerRun } from './former-run.ts';
import { HeldSaves } from './saves/held-saves.ts';
import { OpenedSources, type SourceRules } from './saves/open-sources.ts';
import { type SaveHooks, SaveJob } from './saves/save-job.ts';
import { SealRecords } from './saves/seal-records.ts';
import type { SaveCommit, SealRecord, Stage, WriterRecord } from './staging/stage.ts';

/** Each holds its files open. */
const OPEN_SAVES_MAX = 64;
/** Ended saves that a writer still tells about. A trainer may ask for each of them much later. */
const ENDED_KEPT = 1024;

export interface WriterParts {
  readonly join: WriterRecord;
  /** The run, in whatever form the trainer names it. */
  readonly place: string;
  readonly stage: Stage;
  readonly rules: Pick<SourceRules, 'roots' | 'owners'>;
  /**
   * Opens the manager of the run, with files that only this writer's saves have. `runId`: the
   * manager must refuse another run.
   */
  readonly open: (files: LocalFiles, runId: string | undefined) => Promise<RunManager>;
  /** A save has changed. */
  readonly onSave: (job: SaveJob) => void;
  /** The writer has ended, and so have all its saves. */
  readonly onEnd: () => void;
}

export function writerIdOf({ uri, attempt, index, life }: WriterRecord): string {
  const facts = JSON.stringify([uri, attempt, index, life]);
  return createHash('sha256').update(facts).digest('hex').slice(0, 32);
}

export class Writer {
  readonly id: string;
  readonly join: WriterRecord;
  readonly #parts: WriterParts;
  readonly #saves = new Map<string, SaveJob>();
  readonly #records: SealRecords;
  readonly #listeners = new Set<(job: SaveJob) => void>();
  readonly #held = new HeldSaves((job) => this.#enqueue(job));
  #manager: Promise<RunManager> | undefined;
  #queue: Promise<void> = Promise.resolve();
  #isPrepared = false;
  #hasLeft = false;
  /** The run that its trainer has joined. */
  #runId: string | undefined;
  #silentSinceMs = systemClock.monotonicMs();
  #isClosed = false;
  #ending: Promise<void> | undefined;

  constructor(parts: WriterParts) {
    this.#parts = parts;
    this.join = parts.join;
    this.id = writerIdOf(parts.join);
    this.#runId = parts.join.runId;
    this.#records = new SealRecords(parts.stage, this.id);
  }

  /** Since when no connection stands for the trainer; by a monotonic clock. */
  get silentSinceMs(): number {
    return this.#silentSinceMs;
  }

  get isConnected(): boolean {
    return this.#listeners.size > 0;
  }

  /** Set once it ends; resolves when nothing of it is left. */
  get ending(): Promise<void> | undefined {
    return this.#ending;
  }

  get saves(): readonly SaveJob[] {
    return [...this.#saves.values()].reverse();
  }

  /** It does not end when its saves have ended. Not for one that is ending. */
  comeBack(): void {
    this.#hasLeft = false;
    this.#silentSinceMs = systemClock.monotonicMs();
  }

  /** `WorldSizeMismatch`: the trainer now says another number of writers. */
  assertCount(count: number): void {
    const { index, attempt, count: known } = this.join;
    if (count === known) return;
    const message = `writer ${index} of attempt "${attempt}" joined as one of ${known}, and now says ${count}`;
    throw new CheckpointError('WorldSizeMismatch', message);
  }

  /** `Fenced`: the trainer has joined another run at this place. */
  assertRun(runId: string | undefined): void {
    if (runId !== undefined && this.#runId !== undefined && runId !== this.#runId)
      throw ofFormerRun(this.join.uri);
  }

  /** Enters the run. `Fenced`: it is not the run that the trainer joined before. */
  async enter(): Promise<JoinResult & { latest: CheckpointSummary | null }> {
    this.comeBack();
    // The trainer may save from other memory. `Stage.view` and the log say what is wrong.
    await this.#prepare().catch(() => undefined);
    try {
      const manager = await this.#opened();
      const joined = await manager.join();
      await this.#keepRun(joined.runId);
      const latest = await manager.latest();
      return { ...joined, latest: latest?.summary ?? null };
    } catch (error) {
      if (this.#saves.size === 0) await this.leave();
      throw isOfAnotherRun(error) ? ofFormerRun(this.join.uri, error) : error;
    }
  }

  /** Before a save is sealed, so that no later agent commits it to a run that was begun since. */
  async #keepRun(runId: string): Promise<void> {
    if (this.#runId === runId) return;
    this.#runId = runId;
    await this.#prepare().catch(() => undefined);
  }

  /** Opens the sources before it resolves. `Conflict`: the id was used for another save. */
  async save({ isRepeated = false, ...request }: SaveRequest): Promise<SaveJob> {
    const begunWith = fingerprintOf(request);
    this.#held.named(request.saveId);
    const known = this.#saves.get(request.saveId);
    if (known) {
      if (known.facts.begunWith !== begunWith)
        throw new CheckpointError('Conflict', `save ${request.saveId} was begun with other content`);
      // The first request may still open its sources, and may be refused.
      await known.inTurn(async () => undefined);
      return this.#saves.get(request.saveId) === known ? known : this.save({ ...request, isRepeated });
    }
    if (this.saves.filter(({ state }) => state === 'open').length >= OPEN_SAVES_MAX)
      throw new CheckpointError(
        'InvalidArgument',
        `this writer has ${OPEN_SAVES_MAX} saves that are not sealed`,
      );
    const job = this.#begin(request, begunWith);
    job.isRepeated = isRepeated && this.#isOnly(job);
    try {
      await job.inTurn(async () => {
        job.files = await this.#added(job, request.files);
        if (request.sealed) await this.#seal(job, { ...request, files: [...job.files] });
      });
    } catch (error) {
      this.#saves.delete(request.saveId);
      this.#held.note(request.saveId);
      await job.sources.close();
      throw error;
    }
    return job;
  }

  /**
   * Goes on with what an earlier agent had sealed. If its files have changed meanwhile, or are
   * gone, the store says whether the earlier agent had sent them. If not, the save has failed: its
   * trainer must hear that, and not begin it anew with other bytes. Resolves to what is wrong with
   * the files.
   */
  async resume(record: SealRecord): Promise<CheckpointError | undefined> {
    const job = this.#begin(record, record.begunWith);
    job.sealedWith = record.sealedWith;
    job.isRecorded = true;
    this.#records.know(record);
    if (record.committed) {
      job.noteCommitted(record.committed);
      return undefined;
    }
    const lost = record.isDelivered ? undefined : await this.#openAgain(job, record);
    // The store knows a delivery by its version.
    if (lost && !this.#isOnly(job)) {
      await job.fail(lost);
      return lost;
    }
    // The sources of a delivered save may have changed: the trainer was told that they may.
    if (record.isDelivered || lost) job.noteSent(lost);
    job.seal();
    this.#held.add(
      job,
      (record.after ?? []).filter((saveId) => !this.#saves.has(saveId)),
    );
    return lost;
  }

  #isOnly({ facts }: SaveJob): boolean {
    return this.saves.every((one) => one.facts.version !== facts.version || one.facts === facts);
  }

  /**
   * Opens the sources. Those of a save that the trainer repeats may be gone, because it was told
   * that an earlier agent had sent them, or because the version is committed.
   */
  async #added(job: SaveJob, files: readonly SourceFile[]): Promise<SourceFile[]> {
    try {
      return await job.sources.add(files);
    } catch (error) {
      if (!job.isRepeated) throw error;
      job.lost = toCheckpointError(error);
      return [];
    }
  }

  async #openAgain(job: SaveJob, record: SealRecord): Promise<CheckpointError | undefined> {
    try {
      if (!record.isSettled) throw this.#notKnown(record);
      await job.sources.add(record.files);
      return undefined;
    } catch (error) {
      return toCheckpointError(error);
    }
  }

  /**
   * `InvalidArgument`: it is sealed already, and this call brings other files. If it has ended
   * before: the error of its end.
   */
  seal(job: SaveJob, request: SealRequest): Promise<void> {
    return job.inTurn(() => this.#sealWith(job, request));
  }

  async #sealWith(job: SaveJob, request: SealRequest): Promise<void> {
    const { files = [], metrics, metadata } = request;
    const sealedWith = hashOf(request);
    if (job.state !== 'open') {
      // It was never sealed: its end is the answer, such as the stop of this agent.
      if (job.sealedWith === undefined && job.error) throw job.error;
      if (files.length === 0 || job.sealedWith === sealedWith) return;
      throw new CheckpointError(
        'InvalidArgument',
        `save ${job.facts.saveId} is ${job.state}: no file can be added`,
      );
    }
    const added = await this.#added(job, files);
    job.addMeta({ metrics, metadata });
    job.sealedWith = sealedWith;
    const { saveId, version, timeoutMs, inOrder } = job.facts;
    const whole = {
      ...{ saveId, version: String(version), timeoutMs, inOrder },
      ...{ files: [...job.files, ...added], directories: [...job.directories] },
    };
    await this.#seal(job, { ...whole, ...job.meta, sealed: true });
  }

  hasSave(saveId: string): boolean {
    return this.#saves.has(saveId);
  }

  /** For a request of the trainer. */
  job(saveId: string): SaveJob {
    this.#held.named(saveId);
    return this.#job(saveId);
  }

  #job(saveId: string): SaveJob {
    const job = this.#saves.get(saveId);
    if (job) return job;
    throw new CheckpointError('NotFound', `writer ${this.id} has no save ${saveId}`);
  }

  /** Returns a function that stops listening. With the last one the writer has ended. */
  listen(listener: (job: SaveJob) => void): () => void {
    this.#listeners.add(listener);
    return () => {
      if (!this.#listeners.delete(listener) || this.#listeners.size > 0) return;
      this.#silentSinceMs = systemClock.monotonicMs();
      void this.leave();
    };
  }

  /** Begins what waits for its trainer to repeat earlier saves: there may be no time for that. */
  hurry(): void {
    this.#held.release();
  }

  /** Unsealed saves are dropped, sealed ones continue. */
  async leave(): Promise<void> {
    this.#hasLeft = true;
    this.#held.release();
    const why = new CheckpointError('Aborted', 'the trainer has left before it sealed the save');
    await Promise.all(this.saves.filter(({ state }) => state === 'open').map((job) => job.cancel(why)));
    await this.#removeIfDone();
  }

  /** Stops everything. Sealed saves stay in the stage, for the next agent. */
  async close(why: CheckpointError): Promise<void> {
    this.#isClosed = true;
    this.#held.clear();
    this.#records.close();
    await Promise.all(
      this.saves.map((job) => (job.state === 'open' ? job.cancel(why) : job.leaveToNext(why))),
    );
    await (await this.#manager?.catch(() => undefined))?.close();
  }

  view(): WriterView {
    const { uri, attempt, index, count, pid } = this.join;
    const saves = this.saves.map((job) => job.view());
    return { writerId: this.id, uri, attempt, index, count, pid, isConnected: this.isConnected, saves };
  }

  /**
   * Makes its directory again if another program has removed it. A full stage is no error: the
   * trainer may save from other memory.
   */
  async keepStage(): Promise<void> {
    if (this.#ending || this.#isClosed || (await this.#parts.stage.isThere(this.id))) return;
    try {
      await this.#prepare();
    } catch (error) {
      if (!isCheckpointError(error, 'StorageFull')) throw error;
    }
  }

  async #prepare(): Promise<void> {
    const join = { ...this.join, runId: this.#runId };
    await this.#parts.stage.prepare(this.id, join, this.#parts.place);
    this.#isPrepared = true;
  }

  #begin(request: SaveRequest, begunWith: string): SaveJob {
    const { saveId, files, directories = [], metrics, metadata, timeoutMs, inOrder } = request;
    const sources = new OpenedSources({
      ...this.#parts.rules,
      stage: this.#parts.stage.pathOf(this.id),
      inStage: (work) => this.#parts.stage.within(this.id, work),
      life: this.join.life,
    });
    const version = toVersion(BigInt(request.version));
    const facts = { saveId, writerId: this.id, version, timeoutMs, inOrder, begunWith };
    const hooks: SaveHooks = {
      onChange: (changed) => this.#changed(changed),
      beforeEnd: (commit) => this.#recordEnd(job, commit),
      // If the record cannot be written, a restarted agent needs the sources again.
      onDelivered: () => this.#records.amend(saveId, { isDelivered: true }),
    };
    const job: SaveJob = new SaveJob(facts, {
      files,
      directories,
      sources,
      meta: { metrics, metadata },
      hooks,
    });
    this.#saves.set(saveId, job);
    return job;
  }

  async #seal(job: SaveJob, request: SaveRequest): Promise<void> {
    if (job.lost) {
      job.noteSent(job.lost);
      return this.#start(job);
    }
    const isNamed = request.files.every(({ source }) => 'path' in source);
    // Memory ends with this process, so a record could promise nothing.
    if (isNamed) {
      if (!this.#isPrepared || !(await this.#parts.stage.isThere(this.id))) await this.#prepare();
      const { sealedWith } = job;
      const { begunWith } = job.facts;
      const isSettled = this.#ownFiles(request).length === 0;
      const after = this.saves.flatMap((one) => (one.isUnderWay && !one.isRecorded ? one.facts.saveId : []));
      const record = {
        ...{ ...request, isDelivered: false, isSettled, begunWith, sealedWith },
        ...(after.length > 0 && { after }),
      };
      await this.#records.add(record);
      if (!isSettled) void this.#noteSettled(job);
    }
    job.isRecorded = isNamed;
    this.#start(job);
  }

  #recordEnd({ facts, sealedWith }: SaveJob, committed: SaveCommit | undefined): Promise<void> {
    const { saveId, begunWith } = facts;
    if (committed === undefined) return this.#records.remove(saveId);
    const save = { saveId, version: String(facts.version), files: [], sealed: true };
    const record = { ...save, isDelivered: true, isSettled: true, begunWith, sealedWith, committed };
    return this.#records.commit(record);
  }

  /** Those outside of the stage: the trainer might write to them. */
  #ownFiles({ files }: SaveRequest): readonly string[] {
    const stage = `${this.#parts.stage.pathOf(this.id)}/`;
    return files.flatMap(({ source }) =>
      'path' in source && !source.path.startsWith(stage) ? source.path : [],
    );
  }

  #notKnown(record: SealRecord): CheckpointError {
    const [path = ''] = this.#ownFiles(record);
    const message = `${path} may have changed: the agent ended before it had synced the files of this save`;
    return new CheckpointError('SourceChanged', message, { context: { path } });
  }

  #start(job: SaveJob): void {
    job.seal();
    this.#enqueue(job);
    this.#held.note(job.facts.saveId);
  }

  #enqueue(job: SaveJob): void {
    const isEarlier = (one: SaveJob) => one.isUnderWay && one !== job && !this.#held.has(one);
    const earlier = job.facts.inOrder ? this.saves.filter(isEarlier) : [];
    this.#queue = this.#queue.then(() => this.#run(job, earlier));
  }

  /** Never rejects: without the note, the next agent refuses the save. */
  async #noteSettled({ sources, facts: { saveId } }: SaveJob): Promise<void> {
    try {
      await sources.settled();
      await this.#records.amend(saveId, { isSettled: true });
    } catch {
      // The upload finds what has changed, and tells the trainer.
    }
  }

  async #run(job: SaveJob, earlier: readonly SaveJob[]): Promise<void> {
    try {
      await job.waitFor(earlier);
      await job.run(await this.#opened());
    } catch (error) {
      await job.fail(error);
    }
  }

  #opened(): Promise<RunManager> {
    if (this.#manager !== undefined) return this.#manager;
    const files = { ...localFiles, scan: async (saveId: string) => this.#job(saveId).found() };
    const opening = this.#parts.open(files, this.#runId);
    this.#manager = opening;
    opening.catch(() => {
      this.#manager = undefined;
    });
    return opening;
  }

  #changed(job: SaveJob): void {
    this.#parts.onSave(job);
    for (const listener of this.#listeners) listener(job);
    if (job.hasEnded && !this.#isClosed) void this.#ended();
  }

  async #ended(): Promise<void> {
    const ended = [...this.#saves.values()].filter(({ hasEnded }) => hasEnded);
    for (const old of ended.slice(0, -ENDED_KEPT)) this.#saves.delete(old.facts.saveId);
    await this.#removeIfDone();
  }

  async #removeIfDone(): Promise<void> {
    if (!this.#hasLeft || this.isConnected || this.#isClosed) return;
    if (this.saves.some(({ hasEnded }) => !hasEnded)) return;
    this.#ending ??= this.#end();
    await this.#ending;
  }

  async #end(): Promise<void> {
    await (await this.#manager?.catch(() => undefined))?.close();
    await this.#parts.stage.remove(this.id).catch(() => undefined);
    this.#parts.onEnd();
  }
}

function fingerprintOf({ sealed: _, ...content }: SaveRequest): string {
  return hashOf(content);
}

function hashOf(content: object): string {
  return createHash('sha256').update(JSON.stringify(content)).digest('hex');
}
