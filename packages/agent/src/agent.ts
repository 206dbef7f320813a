/** What the agent does, without HTTP: writers, saves, reads, restores, and its end. */

import process from 'node:process';
import {
  CheckpointError,
  type CheckpointManagerOptions,
  createThrottle,
  createTransferMemory,
  type Logger,
  type RunManager,
  type Settings,
  systemClock,
  type Throttle,
  type TransferMemory,
  toCheckpointError,
} from '@holdfast/core';
import { openCheckpointManager, openStore } from '@holdfast/stores';
import type { RestoreRequest, SaveView } from './api/shapes.ts';
import type { Config } from './config.ts';
import { Elections } from './elections.ts';
import { Figures } from './figures.ts';
import { sharesOf } from './memory-shares.ts';
import { FileReads } from './reading/file-reads.ts';
import { Readers } from './reading/readers.ts';
import { RestoreJob } from './reading/restore-job.ts';
import { runPlace } from './run-place.ts';
import type { SaveJob } from './saves/save-job.ts';
import type { LeftStage, SealRecord, Stage, WriterRecord } from './staging/stage.ts';
import { Writer, writerIdOf } from './writer.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** A trainer that the agent cannot see gets this long to open its connection. */
const SILENT_MS = 10 * 60_000;
/** Ended restores that are still told about. */
const RESTORES_KEPT = 64;

export interface Newest {
  readonly uri: string;
  readonly version: string | null;
}

/** What an agent that has ended leaves. */
export interface Stopped {
  /** The newest committed version of each run that it saved to. */
  readonly newest: readonly Newest[];
  /** Sealed saves that were not committed. */
  readonly unfinishedCount: number;
  /** Those with a record in the staging directory: the next agent continues with them. */
  readonly resumableCount: number;
}

export class Agent {
  readonly config: Config;
  readonly stage: Stage;
  readonly figures = new Figures();
  readonly files: FileReads;
  readonly readers: Readers;
  readonly elections: Elections;
  readonly #env: Environment;
  readonly #logger: Logger;
  readonly #settings: Partial<Settings>;
  readonly #memory: TransferMemory;
  readonly #throttle: Throttle;
  readonly #writers = new Map<string, Writer>();
  readonly #restores = new Map<string, RestoreJob>();
  readonly #newest = new Map<string, bigint>();
  readonly #startedMs = systemClock.monotonicMs();
  readonly #stopped = new AbortController();
  #isStopping = false;
  /** Why nothing can be staged in files, as the log has it. */
  #stageProblem: string | undefined;

  constructor(
    config: Config,
    stage: Stage,
    { env, logger }: { readonly env: Environment; readonly logger: Logger },
  ) {
    this.config = config;
    this.stage = stage;
    this.#env = env;
    this.#logger = logger;
    const { workers, saveBytesPerSecondMax: bytesPerSecondMax } = config;
    const { transferBytes, streamBytes } = sharesOf(config.bufferBytes);
    this.#settings = { bufferBytes: transferBytes, ...(workers !== undefined && { workers }) };
    this.#memory = createTransferMemory({ settings: this.#settings, logger });
    this.#throttle = createThrottle({ bytesPerSecondMax });
    this.readers = new Readers((uri, runId) => this.#open(uri, { runId }), systemClock);
    this.files = new FileReads(this.readers, streamBytes);
    this.elections = new Elections(async (uri) => openStore((await config.resolve(uri)).uri, env), {
      process: { host: config.host, pid: process.pid },
      logger,
    });
  }

  get isStopping(): boolean {
    return this.#isStopping;
  }

  /** Fires when everything is to end. */
  get stopped(): AbortSignal {
    return this.#stopped.signal;
  }

  get writers(): readonly Writer[] {
    return [...this.#writers.values()];
  }

  get memory(): { totalBytes: number; usedBytes: number } {
    const { totalBytes, freeBytes } = this.#memory;
    return { totalBytes, usedBytes: totalBytes - freeBytes };
  }

  /** `null`: no limit. A preemption lifts the limit. */
  get saveBytesPerSecondMax(): number | null {
    return this.#throttle.bytesPerSecondMax;
  }

  get uptimeMs(): number {
    return systemClock.monotonicMs() - this.#startedMs;
  }

  /** Nothing is connected and nothing is under way. */
  get isIdle(): boolean {
    const isRestoring = [...this.#restores.values()].some(({ isUnderWay }) => isUnderWay);
    const isReading = this.readers.useCount > 0;
    return this.#writers.size === 0 && !isRestoring && !isReading && !this.elections.isWatching;
  }

  get newest(): readonly Newest[] {
    return [...this.#newest].map(([uri, version]) => ({ uri, version: String(version) }));
  }

  /**
   * `Unavailable`: the agent stops. `WorldSizeMismatch`: this life joined with another count.
   * `Conflict`: it joined another run, which the alias named before.
   */
  async join(join: WriterRecord): Promise<Writer> {
    this.#assertRunning();
    // Errors here concern the request, not the run. A URI that is not accepted is not logged,
    // because it may hold a secret.
    const place = await runPlace((await this.config.resolve(join.uri)).uri, this.#env);
    const id = writerIdOf(join);
    await this.#writers.get(id)?.ending;
    const known = this.#writers.get(id);
    if (known) {
      known.assertCount(join.count);
      known.assertRun(join.runId);
      // Now: it could end before the caller of this enters it.
      known.comeBack();
      return known;
    }
    const before = await this.stage.placeOf(id);
    if (before !== undefined && before !== place) throw namesAnotherRun(join.uri);
    const writer = new Writer({
      join,
      place,
      stage: this.stage,
      rules: this.config,
      open: async (files, runId) => {
        const { attempt, life, index, count } = join;
        const retention = await this.#rulesOf(join, place);
        return this.#open(join.uri, { files, attempt, life, runId, writer: { index, count }, retention });
      },
      onSave: (job) => this.#note(join.uri, job),
      onEnd: () => this.#writers.delete(id),
    });
    this.#writers.set(id, writer);
    this.#logger.log('info', 'writer joins', { writer: id, run: join.uri, index: join.index, pid: join.pid });
    return writer;
  }

  writer(id: string): Writer {
    const writer = this.#writers.get(id);
    if (writer) return writer;
    throw new CheckpointError('NotFound', `this agent has no writer ${id}; join the run again`);
  }

  /**
   * `Unavailable`: the agent stops. It still takes the parts of a version that another writer of
   * the attempt waits for: without them that one could not end.
   */
  assertTakesSave({ join }: Writer, version: bigint): void {
    if (!this.#isStopping) return;
    const isAwaited = this.writers.some(
      (other) =>
        other.join.uri === join.uri &&
        other.join.attempt === join.attempt &&
        other.saves.some((job) => job.isUnderWay && job.facts.version === version),
    );
    if (!isAwaited) this.#assertRunning();
  }

  /** Repeating it with the same id changes nothing. */
  async startRestore(request: RestoreRequest): Promise<RestoreJob> {
    const known = this.#restores.get(request.restoreId);
    if (known) {
      if (JSON.stringify(known.request) === JSON.stringify(request)) return known;
      throw new CheckpointError('Conflict', `restore ${request.restoreId} was begun with other content`);
    }
    this.#assertRunning();
    await this.config.assertMayWrite(request.to);
    const job = new RestoreJob(request);
    this.#restores.set(request.restoreId, job);
    job.start((work) => this.readers.use(request.uri, work));
    const ended = [...this.#restores].filter(([, { isUnderWay }]) => !isUnderWay);
    for (const [id] of ended.slice(0, -RESTORES_KEPT)) this.#restores.delete(id);
    return job;
  }

  restore(id: string): RestoreJob {
    const job = this.#restores.get(id);
    if (job) return job;
    throw new CheckpointError('NotFound', `this agent has no restore ${id}`);
  }

  /** Goes on with what an earlier agent had sealed, and removes what certainly has no trainer. */
  async resume(): Promise<void> {
    const { writers, strangers } = await this.stage.left();
    for (const writer of strangers)
      this.#logger.log(
        'warn',
        'leaves records of another version of the agent, or of another machine, alone',
        { writer },
      );
    for (const left of writers) await this.#resume(left);
  }

  /**
   * Makes directories in the stage again that another program has removed. If one cannot be made,
   * trainers save from memory without a name, and the log says why, once. Never rejects.
   */
  async keepStage(): Promise<void> {
    const connected = this.writers.filter(({ isConnected }) => isConnected);
    try {
      await this.stage.keep();
      for (const writer of connected) await writer.keepStage();
      if (this.#stageProblem !== undefined)
        this.#logger.log('info', 'the staging directory is in use again', { stage: this.stage.directory });
      this.#stageProblem = undefined;
    } catch (error) {
      const { message } = toCheckpointError(error);
      if (message === this.#stageProblem) return;
      this.#stageProblem = message;
      const what = 'cannot use the staging directory; trainers save from memory without a name';
      this.#logger.log('warn', what, { stage: this.stage.directory, error: message });
    }
  }

  /** Ends writers whose trainers have ended without a word, or never opened their connection. */
  async lookAtWriters(): Promise<void> {
    for (const writer of this.writers) {
      if (writer.isConnected) continue;
      const isGone = await this.stage.isCertainlyGone(writer.join);
      const isSilent = systemClock.monotonicMs() - writer.silentSinceMs > SILENT_MS;
      if (isGone ?? isSilent) await writer.leave();
    }
  }

  /**
   * Takes no more saves; waits until those under way have ended, at most until the time given. No
   * limit of bandwidth holds them back any more.
   */
  async drain(untilMs: number): Promise<{ newest: readonly Newest[]; unfinished: SaveView[] }> {
    this.#isStopping = true;
    this.#throttle.setBytesPerSecondMax(null);
    for (const writer of this.writers) writer.hurry();
    // Parts of versions under way may still come.
    for (let jobs = this.#jobsUnderWay(); jobs.length > 0; jobs = this.#jobsUnderWay()) {
      await Promise.all(jobs.map((job) => job.reached('committed', untilMs)));
      if (systemClock.monotonicMs() >= untilMs) break;
    }
    return { newest: this.newest, unfinished: this.#jobsUnderWay().map((job) => job.view()) };
  }

  async close(): Promise<Stopped> {
    this.#isStopping = true;
    const jobs = this.#jobsUnderWay();
    const why = new CheckpointError(
      'Unavailable',
      'the agent stops; sealed saves continue when it starts again',
    );
    await Promise.all(this.writers.map((writer) => writer.close(why)));
    await Promise.all([...this.#restores.values()].map((job) => job.leaveToNext()));
    this.#stopped.abort();
    await this.readers.closeIdle(true);
    await this.elections.close();
    this.#memory.close();
    // A decision that had been made stands.
    const unfinished = jobs.filter(({ state }) => state !== 'committed');
    const resumable = unfinished.filter(({ isRecorded }) => isRecorded);
    return {
      newest: this.newest,
      unfinishedCount: unfinished.length,
      resumableCount: resumable.length,
    };
  }

  #jobsUnderWay(): SaveJob[] {
    return this.writers.flatMap((writer) => writer.saves).filter((job) => job.isUnderWay);
  }

  async #resume(left: LeftStage): Promise<void> {
    const { writerId, join, seals, lost, isGone } = left;
    for (const { saveId: save, version } of lost)
      this.#logger.log('warn', 'a sealed save is lost: the machine has started anew', {
        save,
        version: String(version),
      });
    if (seals.length === 0) {
      if (isGone) await this.stage.remove(writerId);
      return;
    }
    const saves = seals.filter(({ committed }) => committed === undefined).length;
    if (saves > 0)
      this.#logger.log('info', 'resumes sealed saves', { writer: writerId, run: join.uri, saves });
    try {
      const writer = await this.join(join);
      for (const seal of seals) await this.#resumeSave(writer, seal);
      if (isGone) await writer.leave();
    } catch (error) {
      this.#logger.log('warn', 'cannot resume sealed saves', { writer: writerId, error: String(error) });
    }
  }

  /** One that cannot continue does not hold up the others. */
  async #resumeSave(writer: Writer, { saveId: save, ...seal }: SealRecord): Promise<void> {
    const lost = await writer.resume({ saveId: save, ...seal });
    if (lost === undefined) return;
    const what = 'the files of a sealed save have changed, or are gone';
    this.#logger.log('warn', what, { save, version: String(seal.version), error: String(lost) });
  }

  #note(uri: string, job: SaveJob): void {
    const { saveId, version } = job.facts;
    this.#logger.log('info', `save ${job.state}`, { save: saveId, run: uri, version: String(version) });
    this.figures.note(job);
    if (job.state === 'committed') {
      const newest = this.#newest.get(uri);
      if (newest === undefined || version > newest) this.#newest.set(uri, version);
    }
  }

  async #open(uri: string, options: Omit<CheckpointManagerOptions, 'store'>): Promise<RunManager> {
    const run = await this.config.resolve(uri);
    return openCheckpointManager(run.uri, {
      ...options,
      // The configuration decides: a trainer must not retire what others keep.
      retention: run.retention ?? options.retention,
      env: this.#env,
      settings: this.#settings,
      memory: this.#memory,
      throttle: this.#throttle,
      logger: this.#logger,
      process: { host: this.config.host, pid: process.pid },
    });
  }

  /**
   * Those that a trainer brings. An alias with rules may be of the same run, under another form of
   * its URI. The run then keeps the rules that it has.
   */
  async #rulesOf({ retention }: WriterRecord, place: string): Promise<WriterRecord['retention'] | undefined> {
    const { urisWithRules } = this.config;
    if (retention === undefined || urisWithRules.length === 0) return retention;
    const places = await Promise.all(
      urisWithRules.map((each) => runPlace(each, this.#env).catch(() => null)),
    );
    return places.includes(place) ? undefined : retention;
  }

  #assertRunning(): void {
    if (!this.#isStopping) return;
    throw new CheckpointError('Unavailable', 'the agent stops, and takes no more saves');
  }
}

function namesAnotherRun(alias: string): CheckpointError {
  const message = `${alias} names another run now than when this trainer joined it; start the trainer again, or let the alias name the former run`;
  return new CheckpointError('Conflict', message);
}
