/**
 * Mirroring one run into another: which checkpoints, in which order, and what to do about those
 * that cannot be copied. `copy-checkpoint.ts` copies one checkpoint.
 */

import type { MirroredCheckpoint, MirrorOptions, MirrorResult } from '../../contract/checkpoint-manager.ts';
import { CheckpointError, isCheckpointError, throwIfAborted } from '../../contract/errors.ts';
import { type CatalogCheckpoint, idEquals, idText, type State } from '../../format/index.ts';
import {
  differenceOf,
  isAnnotatedAlike,
  isMirrorAttempt,
  leftBehind,
  type MirrorOrigin,
  mirrorAttempt,
  missingAnnotation,
  selectForMirror,
} from '../../plan/mirror.ts';
import { boundedReason } from '../../plan/reason.ts';
import { findById, findByVersion } from '../../plan/state.ts';
import type { Head } from '../catalog/index.ts';
import {
  assertNotOvertaken,
  join,
  joinToSave,
  type Membership,
  newAttempt,
  recordAnnotation,
} from '../commit/index.ts';
import { contentOf, readCommitted, readOriginal } from '../read/index.ts';
import { isUnanswered, newId } from '../records/index.ts';
import { assertNotLost, NOTHING_TOLD, type RunContext, withDoneInErrors } from '../run/index.ts';
import { copyCheckpoint } from './copy-checkpoint.ts';

interface Mirror extends MirrorOptions {
  /** Also fires when one of the managers is closed. */
  readonly signal: AbortSignal;
  /** The signal that the caller gave. */
  readonly caller: AbortSignal | undefined;
  /** Recorded where the copy takes the target over. */
  readonly reason: string;
  /**
   * Throws if the target cannot be copied to. Called after joining the target: from then on no
   * other mirror commits there.
   */
  readonly assertTarget?: (head: Head) => void;
}

export async function mirror(source: RunContext, target: RunContext, options: Mirror): Promise<MirrorResult> {
  checkTogether(options);
  return withDoneInErrors((done) => mirrorAll(new Mirroring(source, target, options, done), target, options));
}

async function mirrorAll(
  mirroring: Mirroring,
  target: RunContext,
  { watchIntervalMs, caller, signal, onProgress }: Mirror,
): Promise<MirrorResult> {
  for (;;) {
    try {
      await mirroring.pass();
      if (watchIntervalMs === undefined) return mirroring.result;
      onProgress?.({ type: 'idle', waitMs: watchIntervalMs });
    } catch (error) {
      if (watchIntervalMs === undefined) throw error;
      // A stop is the normal end of following a run. The exception is a copy whose outcome is
      // unknown: that error is thrown.
      if (caller?.aborted && !isCheckpointError(error, 'OutcomeUnknown')) return mirroring.result;
      if (caller?.aborted || !isUnanswered(error)) throw error;
      onProgress?.({
        type: 'retry',
        detail: `${error.message}; looking again in ${watchIntervalMs / 1000} s`,
      });
    }
    // An error of the sleep is ignored, because the signal is checked after it.
    await target.clock.sleep(watchIntervalMs, signal).catch(() => undefined);
    if (caller?.aborted) return mirroring.result;
    throwIfAborted(signal);
  }
}

function checkTogether({ watchIntervalMs, versions }: MirrorOptions): void {
  if (watchIntervalMs === undefined || versions === undefined) return;
  const message = '`versions` names existing versions; to follow a run, omit it';
  throw new CheckpointError('InvalidArgument', message);
}

const COPIED_BEFORE_ROLLBACK =
  'it was copied before a rollback of the source left it behind: a restart from the copy may load it';

class Mirroring {
  readonly #source: RunContext;
  readonly #target: RunContext;
  readonly #options: Mirror;
  /** See `withDoneInErrors`. */
  readonly #done: string[];
  readonly #copied: MirroredCheckpoint[] = [];
  readonly #present = new Set<bigint>();
  readonly #annotated = new Set<bigint>();
  readonly #skipped: { readonly version: bigint; readonly reason: string }[] = [];
  /** By id in the source. These checkpoints need no more work, unless they are annotated again. */
  readonly #settled = new Map<string, CatalogCheckpoint>();
  #membership: Membership | undefined;

  constructor(source: RunContext, target: RunContext, options: Mirror, done: string[]) {
    this.#done = done;
    this.#source = source;
    this.#target = target;
    this.#options = options;
  }

  get result(): MirrorResult {
    return {
      copied: this.#copied,
      present: [...this.#present],
      annotated: [...this.#annotated],
      skipped: this.#skipped,
    };
  }

  /** Copies what the source holds now. */
  async pass(): Promise<void> {
    const { signal, watchIntervalMs } = this.#options;
    const select = ({ seq, state }: Head) => (seq === 0 ? [] : selectForMirror(state, this.#options));
    const { answer: wanted, head: from } = await this.#source.catalog.ask(select, signal);
    if (from.seq === 0) {
      await assertNotLost(this.#source, signal, NOTHING_TOLD);
      if (watchIntervalMs !== undefined) return;
      const { uri } = this.#source.store;
      throw new CheckpointError('NotFound', `there is no run at ${uri}`, {
        context: { store: uri, run: 'missing' },
      });
    }
    for (const checkpoint of wanted) {
      const before = this.#settled.get(idText(checkpoint.id));
      if (before && isAnnotatedAlike(before, checkpoint)) continue;
      await this.#take(checkpoint, from);
      this.#settled.set(idText(checkpoint.id), checkpoint);
    }
    await this.#tellLeftBehind(from);
  }

  /**
   * Tells which versions were copied before a rollback of the source left them behind. A copy knows
   * no rollbacks, so a restart from it may load them. Each is told once.
   */
  async #tellLeftBehind(from: Head): Promise<void> {
    const findLeft = ({ state }: Head) =>
      leftBehind(state).filter(({ id }) => !this.#settled.has(idText(id)));
    const { answer: behind } = await this.#source.catalog.ask(findLeft, this.#options.signal, from);
    if (behind.length === 0) return;
    const isHere = (state: State, { id }: CatalogCheckpoint) =>
      findByVersion(state, id.version)?.state === 'LIVE';
    const find = ({ state }: Head) => behind.filter((checkpoint) => isHere(state, checkpoint));
    const { answer } = await this.#target.catalog.ask(find, this.#options.signal);
    for (const checkpoint of answer) {
      this.#settled.set(idText(checkpoint.id), checkpoint);
      this.#passOver(checkpoint, COPIED_BEFORE_ROLLBACK);
    }
  }

  async #take(checkpoint: CatalogCheckpoint, from: Head): Promise<void> {
    try {
      await this.#decide(checkpoint, from);
    } catch (error) {
      const reason = await this.#reasonToPassOver(error, checkpoint);
      if (reason === undefined) throw error;
      this.#passOver(checkpoint, reason);
    }
  }

  async #decide(checkpoint: CatalogCheckpoint, from: Head): Promise<void> {
    const { version } = checkpoint.id;
    const { signal } = this.#options;
    const find = ({ state }: Head) => findByVersion(state, version);
    const { answer: there, head } = await this.#target.catalog.ask(find, signal);
    if (head.runId === from.runId) {
      throw this.#error(
        'InvalidArgument',
        'both are the same run, or one is a copy made by other means',
        version,
      );
    }
    if (there) return this.#compare(checkpoint, there);
    if (version > head.state.top) {
      // Another mirror has copied it since the look. The next look finds it.
      return (await this.#copy(checkpoint, from)) ? undefined : this.#decide(checkpoint, from);
    }
    const tooOld = `it is not above ${head.state.top}, the highest that was committed here`;
    const isWanted =
      this.#options.versions || (from.state.latest && idEquals(from.state.latest, checkpoint.id));
    if (isWanted) throw this.#error('Conflict', `version ${version} cannot be committed: ${tooOld}`, version);
    this.#passOver(checkpoint, tooOld);
  }

  async #compare(checkpoint: CatalogCheckpoint, there: CatalogCheckpoint): Promise<void> {
    const { signal } = this.#options;
    const { version } = checkpoint.id;
    const original = await contentOf(await readOriginal(this.#source, checkpoint, signal), signal);
    const copy = await contentOf(await readCommitted(this.#target, there, signal), signal);
    const difference = differenceOf(original, copy);
    if (difference !== undefined) {
      throw this.#error(
        'Conflict',
        `version ${version} is here already, with other content: ${difference}`,
        version,
      );
    }
    if (there.state === 'QUARANTINED')
      return this.#passOver(checkpoint, `it is quarantined here: ${there.reason}`);
    if (!this.#copied.some((copied) => idEquals(copied.id, there.id))) this.#present.add(version);
    await this.#annotate(checkpoint, there, original.union.metrics);
  }

  /** Copies the annotations of the original. `saved`: the metrics of its commit. */
  async #annotate(
    checkpoint: CatalogCheckpoint,
    there: CatalogCheckpoint,
    saved: Readonly<Record<string, number>>,
  ): Promise<void> {
    const missing = missingAnnotation(checkpoint, there, saved);
    if (!missing) return;
    const run = this.#target;
    const { version } = checkpoint.id;
    try {
      await recordAnnotation(run, there.id, { ...missing, signal: this.#options.signal });
      this.#annotated.add(version);
      this.#done.push(`annotated: version ${version}`);
    } catch (error) {
      // The copy was retired, quarantined or removed meanwhile, or it has too many annotations of
      // its own. That is no reason to stop mirroring.
      const isRefused = (['Conflict', 'Corrupt', 'NotFound'] as const).some((code) =>
        isCheckpointError(error, code),
      );
      if (!isRefused) throw error;
      this.#passOver(
        checkpoint,
        `its metrics and metadata were not copied: ${(error as CheckpointError).message}`,
      );
    }
  }

  /** `false`: another mirror committed it first. */
  async #copy(checkpoint: CatalogCheckpoint, from: Head): Promise<boolean> {
    const origin = { runId: from.runId, lineage: from.state.lineage };
    const join = (worldSize: number, signal: AbortSignal) => this.#join(origin, worldSize, signal);
    const { assertTarget } = this.#options;
    const copy = { source: this.#source, target: this.#target, checkpoint, join, assertTarget };
    const made = await copyCheckpoint(copy, this.#options);
    if (!made) return false;
    const { committed, ...copied } = made;
    this.#copied.push(copied);
    this.#done.push(`copied: version ${checkpoint.id.version}`);
    await this.#annotate(checkpoint, committed, committed.metrics);
    return true;
  }

  /**
   * Joins as the only process of an attempt and stands for all writers. A checkpoint with another
   * number of writers needs another attempt. `Fenced`: another process has overtaken this one,
   * which does not take over again.
   */
  async #join(origin: MirrorOrigin, worldSize: number, signal: AbortSignal): Promise<Membership> {
    const run = this.#target;
    const joined = this.#membership;
    if (joined?.writer.count === worldSize && isMirrorAttempt(joined.attempt.id, origin)) return joined;
    const head = await run.catalog.read(signal);
    if (joined) assertNotOvertaken(run, head, { ...joined, writer: joined.writer.index });
    const { state } = head;
    const goesOn = !joined && state.worldSize === worldSize && isMirrorAttempt(state.attempt, origin);
    const id = goesOn ? state.attempt : mirrorAttempt(origin, newId(run));
    const joining = {
      attempt: newAttempt(run, id, false),
      writer: { index: 0, count: worldSize },
      reason: boundedReason(this.#options.reason),
      signal,
    };
    this.#membership = await joinToSave(join(run, joining));
    return this.#membership;
  }

  /** Why the source cannot give this checkpoint. `undefined`: the error must stop the mirror. */
  async #reasonToPassOver(error: unknown, { id }: CatalogCheckpoint): Promise<string | undefined> {
    const run = this.#source;
    const isDamaged = isCheckpointError(error, 'Corrupt') && error.context['lent'] === true;
    if (!isDamaged && !isCheckpointError(error, 'NotFound')) return undefined;
    const { answer } = await run.catalog.ask(({ state }) => findById(state, id), this.#options.signal);
    if (answer?.state !== 'LIVE') return 'it was retired or removed from the source meanwhile';
    if (answer.rolledBack) return 'a rollback of the source has left it behind meanwhile';
    if (!isDamaged) return undefined;
    if (this.#options.onCorrupt === 'skip') return `it is damaged in the source: ${error.message}`;
    throw new CheckpointError(
      'Corrupt',
      `version ${id.version} of ${run.store.uri} is damaged: ${error.message}`,
      {
        context: { ...error.context, version: id.version },
        cause: error,
      },
    );
  }

  #passOver({ id: { version } }: CatalogCheckpoint, reason: string): void {
    this.#skipped.push({ version, reason });
    this.#options.onProgress?.({ type: 'skipped', version, reason });
    this.#target.logger.log('warn', `version ${version} is not mirrored: ${reason}`);
  }

  #error(code: 'Conflict' | 'InvalidArgument', what: string, version: bigint): CheckpointError {
    const store = this.#target.store.uri;
    const message = `${this.#source.store.uri} cannot be mirrored into ${store}: ${what}`;
    return new CheckpointError(code, message, { context: { store, version } });
  }
}
