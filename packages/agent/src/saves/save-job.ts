/** One save of a trainer: its files, its state, and who waits for it. */

import {
  CheckpointError,
  type CheckpointId,
  type FoundTree,
  isCheckpointError,
  isOfAnotherRun,
  type ProgressEvent,
  type RunManager,
  SETTINGS,
  systemClock,
  toCheckpointError,
} from '@holdfast/core/contract';
import type { SaveView, SourceFile } from '../api/shapes.ts';
import { Changes } from '../changes.ts';
import { ofFormerRun } from '../former-run.ts';
import { problemOf } from '../problem.ts';
import type { SaveCommit } from '../staging/stage.ts';
import type { OpenedSources } from './open-sources.ts';
import { lookOnce, settle } from './settle.ts';

export type SaveState = SaveView['state'];
export type SaveGoal = 'staged' | 'delivered' | 'committed';

/** In the order in which a save passes them; the others end it. */
const PROGRESS: readonly SaveState[] = ['open', 'accepted', 'uploading', 'delivered', 'committed'];
const REACHED_AT: Readonly<Record<SaveGoal, SaveState>> = {
  staged: 'accepted',
  delivered: 'delivered',
  committed: 'committed',
};

/**
 * A save that waits for other writers ends by itself when its time is over. Only a decision that
 * the store does not answer lasts longer, and it gets this long.
 */
const DECISION_GRACE_MS = 500;

/** A longer time than any save may take. Timers take no more than 2^31 - 1 ms. */
const WAIT_MS_MAX = 7 * 24 * 3600 * 1000;

export interface SaveFacts {
  readonly saveId: string;
  readonly writerId: string;
  readonly version: bigint;
  /** From the request on: how long it may take until the commit. */
  readonly timeoutMs: number | undefined;
  /** It begins when the writer's earlier saves have ended. */
  readonly inOrder: boolean | undefined;
  /** Hash of the request that began it: repeating it must say the same. */
  readonly begunWith: string;
}

export interface SaveMeta {
  readonly metrics?: Readonly<Record<string, number>> | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
}

/** What a save tells its writer. */
export interface SaveHooks {
  readonly onChange: (job: SaveJob) => void;
  /**
   * Changes the record by which the next agent would continue, before the end is told. Without
   * `commit` the save has failed.
   */
  readonly beforeEnd: (commit?: SaveCommit) => Promise<void>;
  /** Never rejects. */
  readonly onDelivered: () => Promise<void>;
}

export class SaveJob {
  readonly facts: SaveFacts;
  readonly sources: OpenedSources;
  /** Its record is in the staging directory: a restarted agent continues with it. */
  isRecorded = false;
  /** Hash of the request that sealed it, if another one began it. */
  sealedWith: string | undefined;
  /** An earlier agent may have had it. */
  isRepeated = false;
  /**
   * Why its sources cannot be opened, if an earlier agent may have sent them. Then the store tells
   * what it came to.
   */
  lost: CheckpointError | undefined;
  /** Those of the request that began it, until it has ended. */
  files: readonly SourceFile[];
  /** Those without a file in them, until it has ended. */
  directories: readonly string[];
  readonly #hooks: SaveHooks;
  readonly #stop = new AbortController();
  readonly #changes = new Changes();
  readonly #begunMs = systemClock.monotonicMs();
  readonly #waitsForOthers = Promise.withResolvers<void>();
  #running: Promise<void> = Promise.resolve();
  #turn: Promise<void> = Promise.resolve();
  readonly #doneBytes = new Map<string, number>();
  #meta: SaveMeta;
  #state: SaveState = 'open';
  #error: CheckpointError | undefined;
  #commit: SaveCommit | undefined;
  #missingWriters: readonly number[] = [];
  #isLeftToNext = false;
  #overdue: CheckpointError | undefined;
  #sentBefore: { readonly otherwise: CheckpointError | undefined } | undefined;

  constructor(
    facts: SaveFacts,
    {
      files,
      directories,
      sources,
      meta,
      hooks,
    }: {
      readonly files: readonly SourceFile[];
      readonly directories: readonly string[];
      readonly sources: OpenedSources;
      readonly meta: SaveMeta;
      readonly hooks: SaveHooks;
    },
  ) {
    this.facts = facts;
    this.files = files;
    this.directories = directories;
    this.sources = sources;
    this.#meta = meta;
    this.#hooks = hooks;
  }

  get state(): SaveState {
    return this.#state;
  }

  /** Why it ended without a commit. */
  get error(): CheckpointError | undefined {
    return this.#error;
  }

  get hasEnded(): boolean {
    return this.#state === 'committed' || !PROGRESS.includes(this.#state);
  }

  /** Its bytes survive the trainer, and are not in the store yet. */
  get isUnderWay(): boolean {
    return this.#state !== 'open' && !this.hasEnded;
  }

  get meta(): SaveMeta {
    return this.#meta;
  }

  addMeta({ metrics, metadata }: SaveMeta): void {
    this.#meta = {
      metrics: { ...this.#meta.metrics, ...metrics },
      metadata: { ...this.#meta.metadata, ...metadata },
    };
  }

  /** Requests that add files, one after another: each must see what the others have added. */
  inTurn(work: () => Promise<void>): Promise<void> {
    const turn = this.#turn.then(work);
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  /** Its files and directories, as a scan would find them. `InvalidArgument`: there is no file. */
  found(): FoundTree {
    const files = this.sources.found();
    if (files.length === 0) throw new CheckpointError('InvalidArgument', 'there is no file to save');
    return { files, directories: this.directories.map((name) => ({ name })) };
  }

  /** No more files; from now on it may begin. */
  seal(): void {
    this.#become('accepted');
  }

  /**
   * Instead of sources: an earlier agent had delivered it. With `otherwise` it only may have, and
   * this is the error of the save if it had not. Call it before `seal`.
   */
  noteSent(otherwise?: CheckpointError): void {
    this.#sentBefore = { otherwise };
  }

  /** Instead of everything else: an earlier agent had committed it, and nothing is told anew. */
  noteCommitted(commit: SaveCommit): void {
    this.#commit = commit;
    this.#state = 'committed';
    this.#forget();
  }

  /** Resolves when these have ended, when it is stopped, or when its own time is over. */
  async waitFor(earlier: readonly SaveJob[]): Promise<void> {
    const leftMs = this.#leftMs() ?? WAIT_MS_MAX;
    const untilMs = systemClock.monotonicMs() + leftMs;
    await Promise.all(earlier.map((one) => one.reached('committed', untilMs, this.#stop.signal)));
  }

  /**
   * Uploads and commits. Resolves when the writer's next save may begin: this one has ended, or
   * only waits for other writers. If nothing is missing, the next one could overtake its commit.
   * Never rejects: the state tells how it ended.
   */
  run(manager: RunManager): Promise<void> {
    this.#running = this.#run(manager);
    return Promise.race([this.#running, this.#waitsForOthers.promise]);
  }

  async #run(manager: RunManager): Promise<void> {
    if (this.#state !== 'accepted' || this.#isLeftToNext) return;
    this.#become('uploading');
    const stopTimers = this.#stopWhenOverdue();
    try {
      if (this.#sentBefore) await this.#commitSent(manager, this.#sentBefore.otherwise);
      else await this.#save(manager);
    } finally {
      stopTimers();
      await this.sources.close();
    }
  }

  async #save(manager: RunManager): Promise<void> {
    const { saveId, version } = this.facts;
    try {
      const result = await manager.save({
        version,
        // The writer's `LocalFiles` finds the sources and directories by this name.
        dir: saveId,
        ...this.#meta,
        timeoutMs: this.#leftMs(),
        signal: this.#stop.signal,
        onProgress: (event) => this.#note(event),
      });
      await this.#committed(result.id, result.referencedBytes);
    } catch (error) {
      await this.#failed(error, manager);
    }
  }

  /** Ends it, unless it has ended or its decision stands. */
  async cancel(why: CheckpointError): Promise<void> {
    if (this.hasEnded) return;
    this.#stop.abort(why);
    if (this.#state === 'uploading' || this.#state === 'delivered') {
      await this.reached('committed', systemClock.monotonicMs() + 5000);
      return;
    }
    await this.#end('cancelled', why);
    await this.sources.close();
  }

  /**
   * Stops the work, and ends nothing: the next agent continues with it. Until then the trainer must
   * not use the segment again, so it is told of no end. Only a commit that was decided already is.
   */
  async leaveToNext(why: CheckpointError): Promise<void> {
    this.#isLeftToNext = true;
    this.#stop.abort(why);
    await this.#running;
  }

  cancelByCaller(): Promise<void> {
    return this.cancel(new CheckpointError('Aborted', 'the trainer cancelled the save'));
  }

  /** A save that never began because its writer could not join. */
  async fail(error: unknown): Promise<void> {
    if (this.hasEnded || this.#isLeftToNext) return;
    await this.#endWith(toCheckpointError(error));
    await this.sources.close();
  }

  /**
   * Resolves when the goal is reached, when it cannot be reached any more, or at the time given.
   */
  async reached(goal: SaveGoal, untilMs: number, signal?: AbortSignal): Promise<void> {
    const isReached = () =>
      this.hasEnded || PROGRESS.indexOf(this.#state) >= PROGRESS.indexOf(REACHED_AT[goal]);
    await this.#changes.until(isReached, untilMs, signal);
  }

  view(): SaveView {
    const { saveId, writerId, version } = this.facts;
    const { id, sizeBytes = this.sources.sizeBytes, referencedBytes = 0 } = this.#commit ?? {};
    return {
      saveId,
      writerId,
      version: String(version),
      state: this.#state,
      durability: this.#durability(),
      sizeBytes,
      doneBytes: this.#state === 'committed' ? sizeBytes : sumOf(this.#doneBytes),
      referencedBytes,
      id: id ? { lineage: id.lineage, epoch: id.epoch, version: String(id.version) } : null,
      missingWriters: [...this.#missingWriters],
      error: this.#error ? problemOf(this.#error) : null,
    };
  }

  /** Returns a function that ends this. */
  #stopWhenOverdue(): () => void {
    const leftMs = this.#leftMs();
    if (leftMs === undefined) return () => undefined;
    const stop = (state: SaveState, next: string) => {
      if (this.#state !== state) return;
      const { version, timeoutMs } = this.facts;
      const message = `version ${version} was not ${next} within ${timeoutMs} ms`;
      this.#overdue = new CheckpointError('TimedOut', message);
      this.#stop.abort(this.#overdue);
    };
    const timers = [
      setTimeout(() => stop('uploading', 'delivered'), leftMs),
      setTimeout(() => stop('delivered', 'committed'), leftMs + DECISION_GRACE_MS),
    ];
    return () => timers.forEach(clearTimeout);
  }

  #leftMs(): number | undefined {
    const { timeoutMs } = this.facts;
    if (timeoutMs === undefined) return undefined;
    return Math.max(0, this.#begunMs + timeoutMs - systemClock.monotonicMs());
  }

  #durability(): SaveView['durability'] {
    if (this.#state === 'committed') return 'committed';
    return this.isUnderWay ? 'staged' : 'none';
  }

  #note(event: ProgressEvent): void {
    if (event.type === 'bytes') this.#doneBytes.set(event.name, event.doneBytes);
    if (event.type === 'delivered' && this.#state === 'uploading') void this.#noteDelivered();
    if (event.type !== 'delivered' && event.type !== 'waiting') return;
    this.#missingWriters = event.missingWriters;
    if (event.missingWriters.length > 0) this.#waitsForOthers.resolve();
  }

  /** First the record, then the trainer, which may change its files as soon as it is told. */
  async #noteDelivered(): Promise<void> {
    await this.#hooks.onDelivered();
    if (this.#state === 'uploading') this.#become('delivered');
  }

  /**
   * The sources may be gone, but the receipt of an earlier agent is in the store. `otherwise`: it
   * may not be there either.
   */
  async #commitSent(manager: RunManager, otherwise: CheckpointError | undefined): Promise<void> {
    const { version } = this.facts;
    if (!otherwise) this.#become('delivered');
    const { signal } = this.#stop;
    try {
      await manager.join();
      const { id } = await manager.commit({ version, timeoutMs: 0, signal }).catch((error: unknown) => {
        if (!isCheckpointError(error, 'Incomplete')) throw error;
        this.#waitsForOthers.resolve();
        const timeoutMs = this.#leftMs() ?? SETTINGS.commitTimeoutMs.default;
        return manager.commit({ version, timeoutMs, signal });
      });
      await this.#committed(id, 0);
    } catch (error) {
      const isPast = this.isRepeated && (await isBehindLatest(manager, version));
      await this.#failed(otherwise ? unlessSent(error, otherwise, isPast) : error, manager);
    }
  }

  /** Finds out what an unanswered decision came to before the writer saves again. */
  async #failed(error: unknown, manager: RunManager): Promise<void> {
    if (this.#isLeftToNext) return;
    const failure = isOfAnotherRun(error) ? ofFormerRun(manager.uri, error) : toCheckpointError(error);
    if (!isCheckpointError(failure, 'OutcomeUnknown')) {
      await this.#endWith(this.#overdue ?? failure);
      return;
    }
    const { version } = this.facts;
    const settled = this.#overdue
      ? await lookOnce(manager, failure, version)
      : await settle(manager, failure, { version, signal: this.#stop.signal });
    if (settled.id) await this.#committed(settled.id, 0);
    else if (!this.#isLeftToNext) await this.#endWith(settled.error);
  }

  async #committed(id: CheckpointId, referencedBytes: number): Promise<void> {
    const commit = { id, sizeBytes: this.sources.sizeBytes, referencedBytes };
    await this.#hooks.beforeEnd(commit);
    this.#commit = commit;
    this.#missingWriters = [];
    this.#become('committed');
  }

  async #endWith(error: CheckpointError): Promise<void> {
    const { missing } = error.context;
    if (missing) this.#missingWriters = missing.map(({ writer }) => writer);
    await this.#end(stateOf(error, this.#stop.signal), error);
  }

  async #end(state: SaveState, error: CheckpointError): Promise<void> {
    await this.#hooks.beforeEnd();
    this.#error = error;
    this.#become(state);
  }

  #become(state: SaveState): void {
    this.#state = state;
    if (this.hasEnded) this.#forget();
    this.#hooks.onChange(this);
    this.#changes.note();
  }

  /** Ended saves are told for long, and their files are many. */
  #forget(): void {
    const doneBytes = sumOf(this.#doneBytes);
    this.#doneBytes.clear();
    this.#doneBytes.set('', doneBytes);
    this.files = [];
    this.directories = [];
    this.#meta = {};
  }
}

/**
 * The error of a save whose sources are lost. The store has said why it is not committed. `isPast`:
 * it may have been committed, and removed by retention since.
 */
function unlessSent(said: unknown, otherwise: CheckpointError, isPast: boolean): CheckpointError {
  const error = toCheckpointError(said);
  // This trainer has not delivered the version.
  if (error.code === 'NotFound' && !isPast) return otherwise;
  if (error.status !== 'temporary' && error.code !== 'NotFound') return error;
  const message = `${otherwise.message}; it is not known whether an earlier agent had sent it before (${error.message}): see whether the run has the version before you save it again`;
  return new CheckpointError('OutcomeUnknown', message, { cause: error });
}

async function isBehindLatest(manager: RunManager, version: bigint): Promise<boolean> {
  const latest = await manager.latest().catch(() => null);
  return latest !== null && latest.version > version;
}

function stateOf(error: CheckpointError, stop: AbortSignal): SaveState {
  if (error.code === 'Fenced') return 'fenced';
  if (error.code === 'Incomplete') return 'incomplete';
  if (error.code === 'OutcomeUnknown') return 'outcomeUnknown';
  return stop.aborted && error.code !== 'TimedOut' ? 'cancelled' : 'failed';
}

function sumOf(counts: ReadonlyMap<string, number>): number {
  let sum = 0;
  for (const count of counts.values()) sum += count;
  return sum;
}
