/** The manager: one run, the writers in this process, and its readers. */

import type {
  Checkpoint,
  CheckpointReference,
  CheckpointSummary,
  CommitWaitOptions,
  JoinOptions,
  JoinResult,
  ListCheckpointsOptions,
  RecoverResult,
  RestoreOptions,
  RestoreResult,
  SaveOptions,
  SaveResult,
  VersionInput,
  WaitOptions,
  WriterPosition,
} from '../contract/checkpoint-manager.ts';
import { checkOptions } from '../contract/checks.ts';
import { safeLogger, silentLogger, systemClock, systemRandom } from '../contract/components.ts';
import { CheckpointError } from '../contract/errors.ts';
import { jsonReady } from '../contract/json.ts';
import { safeMeter, silentMeter } from '../contract/meter.ts';
import type { CallOptions } from '../contract/object-store.ts';
import type { RunAdmin, RunManager } from '../contract/run-manager.ts';
import { completeSettings } from '../contract/settings.ts';
import type { Throttle } from '../contract/throttle.ts';
import { type CatalogCheckpoint, toReference, toVersion } from '../format/index.ts';
import { RECORD_LIMITS, type RecordLimits } from '../plan/file-lists.ts';
import { toPolicyRecord } from '../plan/retention-policy.ts';
import { findReferredTo, latestOf, newestCheckpoints } from '../plan/state.ts';
import { createTransfers } from '../transfer/index.ts';
import { Admin } from './admin.ts';
import { CALL_RULES } from './call-rules.ts';
import { Calls } from './calls.ts';
import { Catalog } from './catalog/index.ts';
import { CommittedCheckpoint, WritableCheckpoint } from './checkpoints.ts';
import { finishVersion } from './commit/index.ts';
import { BackgroundRetention } from './keep/index.ts';
import { recover } from './mend/index.ts';
import { type CheckpointManagerOptions, OPENING } from './opening.ts';
import { restore } from './read/index.ts';
import { type RunParts, summaryOf, UploadRecords, waitAtMost } from './records/index.ts';
import { assertNotLost, assertOwnEntries, NOTHING_TOLD, type RunContext } from './run/index.ts';
import { save, WriterRegistry } from './save/index.ts';
import { throttleOf } from './throttle-of.ts';

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
export function createCheckpointManager(options: CheckpointManagerOptions): RunManager {
  return openWithLimits(options, RECORD_LIMITS);
}

/** For tests: with lower record limits, a few files already exceed them. */
export function openWithLimits(options: CheckpointManagerOptions, recordLimits: RecordLimits): RunManager {
  checkOptions(options, OPENING, 'what createCheckpointManager is given');
  const { memory } = options;
  const given = completeSettings(options.settings);
  const settings = memory ? completeSettings({ ...given, bufferBytes: memory.totalBytes }) : given;
  const writer = options.writer ?? { index: 0, count: 1 };
  const { retention } = options;
  const clock = options.clock ?? systemClock;
  const throttle = throttleOf(options.throttle, settings, clock);
  const logger = safeLogger(options.logger ?? silentLogger);
  const parts = {
    store: options.store,
    settings,
    clock,
    random: options.random ?? systemRandom,
    logger,
    meter: options.meter ? safeMeter(options.meter, logger) : silentMeter,
  };
  const transfers = createTransfers({ ...parts, throttle, memory });
  const process = options.process ?? { host: '', pid: 0 };
  const { records } = transfers;
  const uploads = new UploadRecords({ ...parts, records });
  const runParts: RunParts = {
    ...parts,
    transfers,
    records,
    uploads,
    process,
    files: options.files,
    dedupe: options.dedupe ?? 'auto',
    recordLimits,
  };
  const run: RunContext = {
    ...runParts,
    catalog: new Catalog(runParts, options.runId),
    rules: { brought: retention === undefined ? undefined : toPolicyRecord(retention), written: undefined },
    retention: new BackgroundRetention(),
    openFiles: new Set(),
    openOutputs: new Set(),
    beforeFirstSave: options.beforeFirstSave,
  };
  const whose = { writer, attempt: options.attempt, life: options.life };
  return new Manager(run, throttle, whose);
}

class Manager implements RunManager {
  readonly admin: RunAdmin;
  readonly throttle: Throttle;
  readonly #run: RunContext;
  readonly #writers: WriterRegistry;
  readonly #calls: Calls;
  readonly #closing = new AbortController();
  #closed: Promise<void> | undefined;

  constructor(
    run: RunContext,
    throttle: Throttle,
    whose: { writer: WriterPosition; attempt: string | undefined; life: string | undefined },
  ) {
    this.throttle = throttle;
    this.#run = run;
    this.#calls = new Calls(run, this.#closing.signal);
    this.admin = new Admin(run, this.#calls);
    this.#writers = new WriterRegistry(run, whose);
  }

  get uri(): string {
    return this.#run.store.uri;
  }

  async join(options: JoinOptions = {}): Promise<JoinResult> {
    const bounded = this.#calls.bounded(options, CALL_RULES.join);
    const membership = await this.#writers.join(bounded.writer, bounded);
    const { epoch, lineage, tookOver, runId } = membership;
    return { epoch, lineage, tookOver, runId };
  }

  async create(version?: VersionInput, options: CallOptions = {}): Promise<Checkpoint> {
    const session = await this.#writers.begin(
      { version: version === undefined ? undefined : toVersion(version), writer: undefined },
      this.#calls.bounded(options, CALL_RULES.call),
    );
    const summarise = (checkpoint: CatalogCheckpoint) => this.#summary(checkpoint);
    return new WritableCheckpoint(this.#run, session, { closing: this.#closing.signal, summarise });
  }

  async get(checkpoint: CheckpointReference, options: CallOptions = {}): Promise<Checkpoint | null> {
    const wanted = toReference(checkpoint);
    const { signal } = this.#calls.bounded(options, CALL_RULES.call);
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
    const { signal } = this.#calls.bounded(options, CALL_RULES.call);
    const head = await this.#run.catalog.read(signal);
    const { seq, state } = head;
    if (seq === 0) await assertNotLost(this.#run, signal, NOTHING_TOLD);
    const found = latestOf(state);
    if (!found) await assertOwnEntries(this.#run, head, signal);
    return found
      ? new CommittedCheckpoint(this.#run, found, summaryOf(state, found, this.#run.catalog.storeTimeMs))
      : null;
  }

  async list(options: ListCheckpointsOptions = {}): Promise<CheckpointSummary[]> {
    const { limit = Number.POSITIVE_INFINITY, signal } = this.#calls.bounded(options, CALL_RULES.list);
    const { answer } = await this.#run.catalog.ask(
      ({ state }) =>
        newestCheckpoints(state, limit).map((each) => summaryOf(state, each, this.#run.catalog.storeTimeMs)),
      signal,
    );
    return answer.reverse();
  }

  async save(options: SaveOptions): Promise<SaveResult> {
    const bounded = this.#calls.bounded(options, CALL_RULES.save);
    return this.#run.meter.measure('save', { uri: this.uri }, async (span) => {
      const result = await this.#calls.thenRetain(save(this.#run, this.#writers, bounded));
      const { version, sizeBytes, referencedBytes, fileCount } = result;
      span.set({ version, sizeBytes, referencedBytes, fileCount });
      return jsonReady(result);
    });
  }

  async commit(
    options: CommitWaitOptions & { version?: VersionInput | undefined } = {},
  ): Promise<CheckpointSummary> {
    const bounded = this.#calls.bounded(options, CALL_RULES.commit);
    const as = this.#writers.sharedLife;
    return this.#summary(await finishVersion(this.#run, { ...bounded, as }));
  }

  async restore(options: RestoreOptions): Promise<RestoreResult> {
    const bounded = this.#calls.bounded(options, CALL_RULES.restore);
    // Join before restoring: from then on a delivery of a former life no longer counts. Otherwise
    // that life could still deliver a version that this life does not restore.
    if (this.#writers.sharedLife) await this.#writers.join(undefined, bounded);
    return this.#run.meter.measure('restore', { uri: this.uri }, async (span) => {
      const result = await restore(this.#run, bounded);
      const { version, sizeBytes, fileCount } = result;
      span.set({ version, sizeBytes, fileCount });
      return jsonReady(result);
    });
  }

  async recover(token: string, options: WaitOptions = {}): Promise<RecoverResult> {
    return jsonReady(await recover(this.#run, token, this.#calls.bounded(options, CALL_RULES.wait).signal));
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
    await Promise.all([files, this.#run.transfers.close(), this.#run.catalog.settled()]);
    await uploads.settled();
  }

  /**
   * Summary of a checkpoint that was just committed. It uses the state in which the commit was
   * seen: a further request could fail and hide the commit.
   */
  #summary(checkpoint: CatalogCheckpoint): CheckpointSummary {
    this.#run.retention.start();
    return summaryOf(this.#run.catalog.seen.state, checkpoint, this.#run.catalog.storeTimeMs);
  }
}
