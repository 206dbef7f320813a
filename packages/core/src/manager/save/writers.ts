/** The writers in this process. Each joins once and keeps its membership until the process ends. */

import type { ProgressEvent, VoidedDeliveries, WriterPosition } from '../../contract/checkpoint-manager.ts';
import { silentLogger } from '../../contract/components.ts';
import { CheckpointError, isCheckpointError } from '../../contract/errors.ts';
import { type State, VERSION_MAX } from '../../format/index.ts';
import { precheckCommit } from '../../plan/apply-commit.ts';
import { inEpochProblem } from '../../plan/epoch.ts';
import { rejectionError } from '../catalog/index.ts';
import {
  type Attempt,
  chooseAttempt,
  join,
  joinToSave,
  type LifeInAttempt,
  type Membership,
} from '../commit/index.ts';
import { checkWriter, type RunContext } from '../run/index.ts';
import { NewestManifests } from './bases.ts';
import { SaveSession } from './session.ts';

/** The options of a call that may join. */
interface JoinCall {
  readonly signal: AbortSignal;
  readonly onProgress?: ((event: ProgressEvent) => void) | undefined;
}

interface Place {
  readonly joined: Promise<Membership>;
  /**
   * Highest version that this process has begun. Versions without a given number continue from it.
   */
  highestBegun: bigint;
}

export class WriterRegistry {
  readonly #run: RunContext;
  readonly #manifests: NewestManifests;
  readonly #default: WriterPosition;
  readonly #givenAttempt: string | undefined;
  readonly #life: string | undefined;
  readonly #places = new Map<number, Place>();
  #attempt: Attempt | undefined;
  #count: number | undefined;

  /**
   * `InvalidArgument`: a life is given without an attempt id. No two processes could share that
   * life.
   */
  constructor(
    run: RunContext,
    {
      writer,
      attempt,
      life,
    }: { writer: WriterPosition; attempt?: string | undefined; life?: string | undefined },
  ) {
    if (life !== undefined && attempt === undefined)
      throw new CheckpointError(
        'InvalidArgument',
        `life "${life}" needs an attempt id: without one, each process begins a new attempt`,
      );
    this.#life = life;
    this.#run = run;
    this.#manifests = new NewestManifests(run);
    this.#default = writer;
    this.#givenAttempt = attempt;
  }

  position(writer: WriterPosition | undefined): WriterPosition {
    return writer === undefined ? this.#default : checkWriter(writer);
  }

  /** The attempt of this process. Drawn at the first call if none was given. */
  attempt(writer: WriterPosition): Attempt {
    this.#attempt ??= chooseAttempt(this.#run, this.#givenAttempt, writer);
    // A drawn attempt never serves more than one writer.
    if (this.#attempt.isDrawn) chooseAttempt(this.#run, undefined, writer);
    return this.#attempt;
  }

  /** `undefined`: this process is a life of its own. */
  get sharedLife(): LifeInAttempt | undefined {
    if (this.#life === undefined) return undefined;
    const writer = this.#default;
    return { life: this.#life, attempt: this.attempt(writer), writer };
  }

  async join(writer: WriterPosition | undefined, options: JoinCall): Promise<Membership> {
    return (await this.#join(this.position(writer), options)).membership;
  }

  /**
   * Joins, if this writer has not, and begins a version: by default one above the highest. A
   * version that can no longer be committed is rejected before a byte is sent: `Fenced` or
   * `Conflict`. If no version is left above the highest, the run is not taken over either.
   */
  async begin(
    wanted: { version: bigint | undefined; writer: WriterPosition | undefined },
    options: JoinCall,
  ): Promise<SaveSession> {
    const writer = this.position(wanted.writer);
    assertVersionNamed(wanted.version, writer);
    const check = wanted.version === undefined ? (state: State) => this.#next(state.top) : undefined;
    const { place, membership } = await joinToSave(this.#join(writer, options, check));
    const { lineage, epoch, incarnation } = membership;
    const idIn = (state: State) => {
      const version = wanted.version ?? this.#next(max(state.top, place.highestBegun));
      return { lineage, epoch, version };
    };
    const own = { writer: writer.index, incarnation };
    const { answer: decided, head } = await this.#run.catalog.ask(
      ({ state }) => precheckCommit(state, idIn(state), own),
      options.signal,
    );
    const { state } = head;
    const { version } = idIn(state);
    const context = { store: this.#run.store.uri, version, attempt: membership.attempt.id };
    if (decided?.kind === 'rejected') throw rejectionError(decided, context);
    if (decided) {
      // A trainer that was overtaken must learn that first: it could not save any other version.
      const passed = inEpochProblem(state, { lineage, epoch });
      if (passed) throw rejectionError(passed, context);
      throw new CheckpointError('Conflict', `version ${version} is committed already`, { context });
    }
    place.highestBegun = max(place.highestBegun, version);
    const { tookOver } = membership;
    options.onProgress?.({ type: 'joined', version, writer, epoch, tookOver });
    const manifests = this.#manifests;
    return new SaveSession(this.#run, { membership, version, state, manifests });
  }

  /** `Conflict`: `highest` is the highest possible version. */
  #next(highest: bigint): bigint {
    if (highest < VERSION_MAX) return highest + 1n;
    throw new CheckpointError(
      'Conflict',
      `no version is left: ${highest}, the highest possible version, is already committed or begun`,
      {
        context: {
          store: this.#run.store.uri,
          version: highest,
          advice: ['nothing was sent', 'save to another run, or roll this one back to a lower version first'],
        },
      },
    );
  }

  async #join(
    writer: WriterPosition,
    options: JoinCall,
    check?: (state: State) => void,
  ): Promise<{ place: Place; membership: Membership }> {
    this.#count ??= writer.count;
    if (this.#count !== writer.count) {
      throw new CheckpointError(
        'WorldSizeMismatch',
        `this process began as one of ${this.#count} writers, but now says ${writer.count}`,
      );
    }
    const known = this.#places.get(writer.index);
    const place = known ?? { joined: this.#joinOnce(writer, options, check), highestBegun: -1n };
    this.#places.set(writer.index, place);
    try {
      return { place, membership: await place.joined };
    } catch (error) {
      // A failed join may be tried again. A fenced one stays fenced.
      if (!isCheckpointError(error, 'Fenced') && this.#places.get(writer.index) === place) {
        this.#places.delete(writer.index);
      }
      // Another call of this process began the join and was stopped. This call joins again.
      if (known && wasStopped(error) && !options.signal.aborted) return this.#join(writer, options, check);
      throw error;
    }
  }

  #joinOnce(
    writer: WriterPosition,
    { signal, onProgress }: JoinCall,
    check: ((state: State) => void) | undefined,
  ): Promise<Membership> {
    const attempt = this.attempt(writer);
    const isHeard = onProgress !== undefined || this.#run.logger !== silentLogger;
    const onVoided = isHeard
      ? (voided: VoidedDeliveries) => onProgress?.({ type: 'voided', ...voided })
      : undefined;
    return join(this.#run, { attempt, writer, life: this.#life, check, signal, onVoided });
  }
}

/** The join was stopped by its caller's signal, before or after its takeover was sent. */
function wasStopped(error: unknown): boolean {
  return isCheckpointError(error, 'Aborted') || isCheckpointError(error, 'OutcomeUnknown');
}

/** `InvalidArgument`: only a single writer may leave the version out. */
export function assertVersionNamed(version: bigint | undefined, { count }: WriterPosition): void {
  if (version !== undefined || count === 1) return;
  throw new CheckpointError(
    'InvalidArgument',
    `with ${count} writers each save must name its version, or they could disagree`,
  );
}

function max(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}
