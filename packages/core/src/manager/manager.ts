/** The manager: one run, the writers in this process, and its readers. */

import type {
  AnnotateOptions,
  Checkpoint,
  CheckpointId,
  CheckpointManager,
  CheckpointReference,
  CheckpointSummary,
  CommitWaitOptions,
  JoinOptions,
  JoinResult,
  ListCheckpointsOptions,
  LogEntry,
  LogOptions,
  MirrorOptions,
  MirrorResult,
  RecoverResult,
  RestoreOptions,
  RestoreResult,
  SaveOptions,
  SaveResult,
  VerifyOptions,
  VerifyResult,
  VersionInput,
  WaitOptions,
  WriterPosition,
} from '../contract/checkpoint-manager.ts';
import { checkOptions, type Rules, text } from '../contract/checks.ts';
import { safeLogger, silentLogger, systemClock, systemRandom } from '../contract/components.ts';
import { CheckpointError } from '../contract/errors.ts';
import type {
  DiffOptions,
  DiffResult,
  ForkOptions,
  ForkResult,
  Lease,
  LeaseOptions,
  RollbackOptions,
  RollbackResult,
} from '../contract/history.ts';
import { jsonReady } from '../contract/json.ts';
import type { CallOptions } from '../contract/object-store.ts';
import type {
  CollectOptions,
  CollectResult,
  RetentionOptions,
  RetentionPlan,
  RetentionPolicy,
} from '../contract/retention.ts';
import { completeSettings } from '../contract/settings.ts';
import type { Throttle } from '../contract/throttle.ts';
import type { BegunVersion, FsckResult, RebuildOptions, RebuildResult } from '../contract/upkeep.ts';
import { type CatalogCheckpoint, toReference, toVersion } from '../format/index.ts';
import { RECORD_LIMITS, type RecordLimits } from '../plan/file-lists.ts';
import { toPolicyRecord } from '../plan/retention-policy.ts';
import { findReferredTo, latestOf, newestCheckpoints } from '../plan/state.ts';
import { createTransfer } from '../transfer/index.ts';
import { CALL_RULES, referenceOrLatest } from './call-rules.ts';
import { Catalog } from './catalog/index.ts';
import { CommittedCheckpoint, WritableCheckpoint } from './checkpoints.ts';
import { annotate, begun, finishVersion } from './commit/index.ts';
import {
  BackgroundRetention,
  collect,
  pin,
  planOnly,
  retention,
  setRetention,
  undelete,
  unpin,
} from './keep/index.ts';
import { fsck, rebuildCatalog, recover, releaseSkipped, verify } from './mend/index.ts';
import { fork, mirror, rollback } from './move/index.ts';
import { type CheckpointManagerOptions, OPENING } from './opening.ts';
import { callersLeases, diff, readLog, releaseLease, restore, takeLease } from './read/index.ts';
import { type RunParts, summaryOf, UploadRecords, waitAtMost } from './records/index.ts';
import { assertNotLost, findRunsBelow, NOTHING_TOLD, type RunContext } from './run/index.ts';
import { save, WriterRegistry } from './save/index.ts';
import { throttleOf } from './throttle-of.ts';
import { toldEvents } from './told-events.ts';

/**
 * The longest waits of `close`: for the work it stops, and then for the store. Together less than a
 * second.
 */
const END_TIMEOUT_MS = 700;
const STORE_CLOSE_TIMEOUT_MS = 250;

/**
 * The manager of the run in a store. It reads and writes nothing before the first call. From here
 * on it owns the store: `close` closes it. `InvalidConfig`, `InvalidArgument`: a setting or the
 * writer is not valid.
 */
export function createCheckpointManager(options: CheckpointManagerOptions): CheckpointManager {
  return openWithLimits(options, RECORD_LIMITS);
}

/** For tests: with lower record limits, a few files already exceed them. */
export function openWithLimits(
  options: CheckpointManagerOptions,
  recordLimits: RecordLimits,
): CheckpointManager {
  checkOptions(options, OPENING, 'what createCheckpointManager is given');
  const settings = completeSettings(options.settings);
  const writer = options.writer ?? { index: 0, count: 1 };
  const { retention } = options;
  const clock = options.clock ?? systemClock;
  const throttle = throttleOf(options.throttle, settings, clock);
  const parts = {
    store: options.store,
    settings,
    clock,
    random: options.random ?? systemRandom,
    logger: safeLogger(options.logger ?? silentLogger),
  };
  const transfer = createTransfer({ ...parts, throttle });
  const process = options.process ?? { host: '', pid: 0 };
  const { records } = transfer;
  const uploads = new UploadRecords({ ...parts, records });
  const runParts: RunParts = {
    ...parts,
    transfer,
    records,
    uploads,
    process,
    files: options.files,
    dedupe: options.dedupe ?? 'auto',
    recordLimits,
  };
  const run: RunContext = {
    ...runParts,
    catalog: new Catalog(runParts),
    rules: { brought: retention === undefined ? undefined : toPolicyRecord(retention), written: undefined },
    retention: new BackgroundRetention(),
    openFiles: new Set(),
    beforeFirstSave: options.beforeFirstSave,
  };
  const whose = { writer, attempt: options.attempt, life: options.life };
  return new Manager(run, throttle, whose);
}

class Manager implements CheckpointManager {
  readonly throttle: Throttle;
  readonly #run: RunContext;
  readonly #writers: WriterRegistry;
  readonly #closing = new AbortController();
  #closed: Promise<void> | undefined;

  constructor(
    run: RunContext,
    throttle: Throttle,
    whose: { writer: WriterPosition; attempt: string | undefined; life: string | undefined },
  ) {
    this.throttle = throttle;
    this.#run = run;
    this.#writers = new WriterRegistry(run, whose);
  }

  get uri(): string {
    return this.#run.store.uri;
  }

  async join(options: JoinOptions = {}): Promise<JoinResult> {
    const bounded = this.#bounded(options, CALL_RULES.join);
    const membership = await this.#writers.join(bounded.writer, bounded);
    const { epoch, lineage, tookOver } = membership;
    return { epoch, lineage, tookOver };
  }

  async create(version?: VersionInput, options: CallOptions = {}): Promise<Checkpoint> {
    const session = await this.#writers.begin(
      { version: version === undefined ? undefined : toVersion(version), writer: undefined },
      this.#bounded(options, CALL_RULES.call),
    );
    const summarise = (checkpoint: CatalogCheckpoint) => this.#summary(checkpoint);
    return new WritableCheckpoint(this.#run, session, { closing: this.#closing.signal, summarise });
  }

  async get(checkpoint: CheckpointReference, options: CallOptions = {}): Promise<Checkpoint | null> {
    const wanted = toReference(checkpoint);
    const { signal } = this.#bounded(options, CALL_RULES.call);
    const { answer: found, head } = await this.#run.catalog.ask(
      ({ state }) => findReferredTo(state, wanted),
      signal,
    );
    if (!found || found.state === 'QUARANTINED') return null;
    return new CommittedCheckpoint(
      this.#run,
      found,
      summaryOf(head.state, found, this.#run.catalog.storeTimeMs),
    );
  }

  async latest(options: CallOptions = {}): Promise<Checkpoint | null> {
    const { signal } = this.#bounded(options, CALL_RULES.call);
    const { seq, state } = await this.#run.catalog.read(signal);
    if (seq === 0) await assertNotLost(this.#run, signal, NOTHING_TOLD);
    const found = latestOf(state);
    return found
      ? new CommittedCheckpoint(this.#run, found, summaryOf(state, found, this.#run.catalog.storeTimeMs))
      : null;
  }

  async list(options: ListCheckpointsOptions = {}): Promise<CheckpointSummary[]> {
    const { limit = Number.POSITIVE_INFINITY, signal } = this.#bounded(options, CALL_RULES.list);
    const { answer } = await this.#run.catalog.ask(
      ({ state }) =>
        newestCheckpoints(state, limit).map((each) => summaryOf(state, each, this.#run.catalog.storeTimeMs)),
      signal,
    );
    return answer.reverse();
  }

  async save(options: SaveOptions): Promise<SaveResult> {
    return this.#thenRetain(save(this.#run, this.#writers, this.#bounded(options, CALL_RULES.save))).then(
      jsonReady,
    );
  }

  async commit(
    options: CommitWaitOptions & { version?: VersionInput | undefined } = {},
  ): Promise<CheckpointSummary> {
    const bounded = this.#bounded(options, CALL_RULES.commit);
    const as = this.#writers.sharedLife;
    return this.#summary(await finishVersion(this.#run, { ...bounded, as }));
  }

  async restore(options: RestoreOptions): Promise<RestoreResult> {
    const bounded = this.#bounded(options, CALL_RULES.restore);
    // Join before restoring: from then on a delivery of a former life no longer counts. Otherwise
    // that life could still deliver a version that this life does not restore.
    if (this.#writers.sharedLife) await this.#writers.join(undefined, bounded);
    return jsonReady(await restore(this.#run, bounded));
  }

  async mirrorFrom(source: CheckpointManager, options: MirrorOptions = {}): Promise<MirrorResult> {
    const { from, bounded } = this.#withSource(source, options, CALL_RULES.mirror);
    const mirrored = mirror(from, this.#run, { ...bounded, caller: options.signal });
    return this.#thenRetain(mirrored).then(jsonReady);
  }

  async forkFrom(source: CheckpointManager, options: ForkOptions = {}): Promise<ForkResult> {
    const { from, bounded } = this.#withSource(source, options, CALL_RULES.fork);
    const forked = fork(from, this.#run, { ...bounded, caller: options.signal });
    return this.#thenRetain(forked).then(jsonReady);
  }

  async rollback(options: RollbackOptions): Promise<RollbackResult> {
    return jsonReady(await rollback(this.#run, this.#bounded(options, CALL_RULES.rollback)));
  }

  async diff(
    before: CheckpointReference | 'latest',
    after: CheckpointReference | 'latest',
    options: DiffOptions = {},
  ): Promise<DiffResult> {
    referenceOrLatest('before', before);
    referenceOrLatest('after', after);
    return jsonReady(await diff(this.#run, [before, after], this.#bounded(options, CALL_RULES.diff)));
  }

  async lease(options: LeaseOptions): Promise<Lease> {
    return jsonReady(await takeLease(this.#run, this.#bounded(options, CALL_RULES.lease)));
  }

  async releaseLease(id: string, options: WaitOptions = {}): Promise<boolean> {
    return releaseLease(this.#run, id, this.#bounded(options, CALL_RULES.wait));
  }

  async leases(options: WaitOptions & { version?: CheckpointReference | undefined } = {}): Promise<Lease[]> {
    return jsonReady(await callersLeases(this.#run, this.#bounded(options, CALL_RULES.leases)));
  }

  async verify(options: VerifyOptions = {}): Promise<VerifyResult> {
    return jsonReady(await verify(this.#run, this.#bounded(options, CALL_RULES.verify)));
  }

  async recover(token: string, options: WaitOptions = {}): Promise<RecoverResult> {
    return jsonReady(await recover(this.#run, token, this.#bounded(options, CALL_RULES.wait).signal));
  }

  async runsBelow(options: CallOptions = {}): Promise<readonly string[]> {
    return findRunsBelow(this.#run.records, this.#bounded(options, CALL_RULES.call));
  }

  async log(options: LogOptions = {}): Promise<LogEntry[]> {
    return jsonReady(await readLog(this.#run.catalog, this.#bounded(options, CALL_RULES.log)));
  }

  async planRetention(options: RetentionOptions = {}): Promise<RetentionPlan> {
    return jsonReady(await planOnly(this.#run, this.#bounded(options, CALL_RULES.planRetention)));
  }

  async collect(options: CollectOptions = {}): Promise<CollectResult> {
    return jsonReady(await collect(this.#run, this.#bounded(options, CALL_RULES.collect)));
  }

  async setRetention(policy: RetentionPolicy | null, options: WaitOptions = {}): Promise<void> {
    return setRetention(this.#run, policy, this.#bounded(options, CALL_RULES.wait));
  }

  async retention(options: WaitOptions = {}): Promise<RetentionPolicy | null> {
    return jsonReady(await retention(this.#run, this.#bounded(options, CALL_RULES.wait)));
  }

  async pin(checkpoint: CheckpointReference, label: string, options: WaitOptions = {}): Promise<void> {
    return pin(this.#run, { checkpoint, label }, this.#bounded(options, CALL_RULES.wait));
  }

  async unpin(
    checkpoint: CheckpointReference,
    label?: string,
    options: WaitOptions = {},
  ): Promise<readonly string[]> {
    return unpin(this.#run, { checkpoint, label }, this.#bounded(options, CALL_RULES.wait));
  }

  async undelete(checkpoint: CheckpointReference, options: WaitOptions = {}): Promise<void> {
    return undelete(this.#run, checkpoint, this.#bounded(options, CALL_RULES.wait));
  }

  async annotate(checkpoint: CheckpointReference, options: AnnotateOptions = {}): Promise<CheckpointId> {
    return jsonReady(await annotate(this.#run, checkpoint, this.#bounded(options, CALL_RULES.annotate)));
  }

  async begun(options: WaitOptions = {}): Promise<readonly BegunVersion[]> {
    return jsonReady(await begun(this.#run, this.#bounded(options, CALL_RULES.wait)));
  }

  async fsck(options: WaitOptions = {}): Promise<FsckResult> {
    return jsonReady(await fsck(this.#run, this.#bounded(options, CALL_RULES.wait)));
  }

  async rebuildCatalog(options: RebuildOptions = {}): Promise<RebuildResult> {
    return jsonReady(await rebuildCatalog(this.#run, this.#bounded(options, CALL_RULES.rebuild)));
  }

  async releaseSkipped(manifestKey: string, options: WaitOptions = {}): Promise<void> {
    text('manifestKey', manifestKey);
    return releaseSkipped(this.#run, manifestKey, this.#bounded(options, CALL_RULES.wait));
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #close(): Promise<void> {
    const { clock, retention, store } = this.#run;
    await retention.close(this.#run);
    const why = new CheckpointError('Aborted', 'the manager was closed');
    this.#closing.abort(why);
    await waitAtMost(clock, END_TIMEOUT_MS, this.#settled(why));
    await waitAtMost(clock, STORE_CLOSE_TIMEOUT_MS, store.close());
  }

  async #settled(why: CheckpointError): Promise<void> {
    const { openFiles, uploads } = this.#run;
    const files = Promise.all([...openFiles].map((file) => file.end(why)));
    await Promise.all([files, this.#run.transfer.close(), this.#run.catalog.settled()]);
    await uploads.settled();
  }

  /** The run to copy from. Its signal also fires when either manager is closed. */
  #withSource<T extends WaitOptions>(
    source: CheckpointManager,
    options: T,
    rules: Rules<T>,
  ): { from: RunContext; bounded: T & { signal: AbortSignal } } {
    if (typeof source !== 'object' || source === null || !(#run in source)) {
      throw new CheckpointError(
        'InvalidArgument',
        'the source is to be a manager that this copy of Holdfast has opened',
      );
    }
    const bounded = this.#bounded(options, rules);
    return { from: source.#run, bounded: { ...bounded, signal: source.#until(bounded.signal) } };
  }

  /** Checks the options. The signal in the result also fires when the manager is closed. */
  #bounded<T extends WaitOptions>(options: T, rules: Rules<T>): T & { signal: AbortSignal } {
    checkOptions(options, rules, 'what the call is given');
    const onProgress = toldEvents(options.onProgress, this.#run.logger);
    return { ...options, ...(onProgress && { onProgress }), signal: this.#until(options.signal) };
  }

  #until(signal: AbortSignal | undefined): AbortSignal {
    const closing = this.#closing.signal;
    return signal ? AbortSignal.any([signal, closing]) : closing;
  }

  /**
   * Summary of a checkpoint that was just committed. It uses the state in which the commit was
   * seen: a further request could fail and hide the commit.
   */
  #summary(checkpoint: CatalogCheckpoint): CheckpointSummary {
    this.#run.retention.start();
    return summaryOf(this.#run.catalog.seen.state, checkpoint, this.#run.catalog.storeTimeMs);
  }

  /** Applies the retention rules in the background after a call that may have committed. */
  #thenRetain<T>(over: Promise<T>): Promise<T> {
    return over.finally(() => this.#run.retention.start());
  }
}
