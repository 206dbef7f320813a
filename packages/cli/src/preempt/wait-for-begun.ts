/** Polls until no version of a run is in progress, at most until the deadline. */

import {
  type BegunVersion,
  CheckpointError,
  type CheckpointSummary,
  type Clock,
  isCheckpointError,
  type RunManager,
  type Settings,
  throwIfAborted,
  toCheckpointError,
  unlessAborted,
} from '@holdfast/core/contract';
import { formatRoughDuration } from '../format.ts';

/**
 * `open`: it may still become durable. `passed-over`: a higher version was committed, so nothing is
 * lost. `over`: it was begun, but no writer can commit it any more, because the run was taken over
 * or rolled back.
 */
export type Fate = 'open' | 'committed' | 'passed-over' | 'over';

export interface WatchedVersion {
  readonly version: bigint;
  fate: Fate;
  /** State at the last poll; `null`: it never existed. */
  begun: BegunVersion | null;
  /** It was open at some poll. */
  wasOpen: boolean;
  /** All writers had delivered at the previous poll. */
  wasComplete: boolean;
  /** Why this process cannot commit it. Other processes may be able to. */
  refusal: CheckpointError | null;
}

export interface Waited {
  /** What a restart would load, at the last poll; `null`: nothing. */
  readonly durable: CheckpointSummary | null;
  /** All versions that were in progress at some time, lowest first. */
  readonly versions: readonly WatchedVersion[];
  readonly waitedMs: number;
  /** Set if the store has not answered for some seconds: since when, and why, if that is known. */
  readonly silent: { readonly forMs: number; readonly error: CheckpointError | null } | null;
}

export interface WaitForBegunOptions {
  /** Waits only for this version, even if it does not exist yet. */
  readonly version: bigint | undefined;
  readonly clock: Clock;
  /** Start and deadline, by the clock's `monotonicMs`. */
  readonly beganMs: number;
  readonly untilMs: number;
  readonly signal: AbortSignal;
  /** Called after each poll that the store has answered. */
  readonly onLook: (versions: readonly WatchedVersion[]) => void;
}

/**
 * Only seconds are left, so backoff must not delay a request once the store is back. A request that
 * hangs is sent again while there is time.
 */
export const HURRIED_SETTINGS = {
  retryDelayMsMax: 1000,
  stallTimeoutMs: 5000,
} as const satisfies Partial<Settings>;

const POLL_MS_MIN = 200;
const POLL_MS_MAX = 1000;
/**
 * The last poll must end before the deadline. It begins earlier by twice the duration of the
 * previous one, within these bounds.
 */
const RESERVE_MS_MIN = 250;
const RESERVE_MS_MAX = 2000;
/** Longest normal time between two answers. */
const SILENT_FROM_MS = POLL_MS_MAX + RESERVE_MS_MAX;

/**
 * Rejects if the store refuses (`NotFound`: there is no run), if it answered nothing until the
 * deadline (`TimedOut`), or with `signal`.
 */
export async function waitForBegun(manager: RunManager, options: WaitForBegunOptions): Promise<Waited> {
  const { clock, untilMs, signal } = options;
  const [deadline, over] = [new AbortController(), new AbortController()];
  clock.sleep(Math.max(0, untilMs - clock.monotonicMs()), over.signal).then(
    () => deadline.abort(new CheckpointError('TimedOut', 'the deadline has passed')),
    () => undefined, // It was over before.
  );
  try {
    return await new Watch(manager, options).run(AbortSignal.any([signal, deadline.signal]));
  } finally {
    over.abort();
  }
}

class Watch {
  readonly #manager: RunManager;
  readonly #options: WaitForBegunOptions;
  readonly #versions = new Map<bigint, WatchedVersion>();
  #durable: CheckpointSummary | null = null;
  #answeredMs: number | null = null;
  /** Error of the last poll, or `undefined` if the store answered. */
  #unanswered: { readonly error: CheckpointError | null } | undefined;

  constructor(manager: RunManager, options: WaitForBegunOptions) {
    this.#manager = manager;
    this.#options = options;
  }

  async run(until: AbortSignal): Promise<Waited> {
    const { clock, untilMs, signal } = this.#options;
    let [pollMs, reserveMs] = [POLL_MS_MIN, RESERVE_MS_MIN];
    for (;;) {
      const beganMs = clock.monotonicMs();
      const isLast = untilMs - beganMs <= reserveMs;
      const looked = await this.#tryLook(isLast, until);
      if (looked === 'nothing is open' || until.aborted) break;
      if (looked === 'committed') continue;
      const nowMs = clock.monotonicMs();
      reserveMs = Math.min(RESERVE_MS_MAX, Math.max(RESERVE_MS_MIN, 2 * (nowMs - beganMs)));
      const leftMs = untilMs - nowMs - reserveMs;
      if (isLast || leftMs <= 0) break;
      await clock.sleep(Math.min(pollMs, leftMs), signal);
      pollMs = Math.min(POLL_MS_MAX, pollMs * 1.5);
    }
    return this.#waited();
  }

  /** A store that temporarily cannot be reached is asked again. */
  async #tryLook(isLast: boolean, until: AbortSignal): Promise<Looked | 'unanswered'> {
    try {
      // Do not wait for a hanging poll: closing the manager aborts it.
      const looked = await unlessAborted(this.#look(isLast, until), until);
      this.#unanswered = undefined;
      return looked;
    } catch (thrown) {
      throwIfAborted(this.#options.signal);
      const error = toCheckpointError(thrown);
      if (!until.aborted && error.status === 'permanent') throw error;
      this.#unanswered = { error: until.aborted ? (this.#unanswered?.error ?? null) : error };
      return 'unanswered';
    }
  }

  async #look(isLast: boolean, signal: AbortSignal): Promise<Looked> {
    const isFirst = this.#answeredMs === null;
    const begun = await this.#begun(signal);
    // List after the versions: a version that is no longer in progress is then either listed or
    // abandoned.
    const summaries = await this.#manager.list({ signal });
    this.#answeredMs = this.#options.clock.monotonicMs();
    this.#durable = summaries.find(({ isLatest }) => isLatest) ?? null;
    this.#judge(begun, summaries);
    const versions = this.#sorted();
    this.#options.onLook(versions);
    const open = versions.filter(({ fate }) => fate === 'open');
    if (open.length === 0) return 'nothing is open';
    return (await this.#commitWhatIsDue(open, isFirst || isLast, signal)) ? 'committed' : 'some are open';
  }

  async #begun(signal: AbortSignal): Promise<readonly BegunVersion[]> {
    const { version } = this.#options;
    if (version === undefined) return this.#manager.admin.begun({ signal });
    try {
      return (await this.#manager.admin.begun({ signal })).filter((each) => each.version === version);
    } catch (error) {
      // It may be the first version of the run.
      if (isCheckpointError(error, 'NotFound')) return [];
      throw error;
    }
  }

  #judge(begun: readonly BegunVersion[], summaries: readonly CheckpointSummary[]): void {
    const { version } = this.#options;
    const found = new Map(begun.map((each) => [each.version, each]));
    for (const each of version === undefined ? found.keys() : [version]) this.#watch(each);
    for (const watched of this.#versions.values()) {
      const there = found.get(watched.version) ?? null;
      watched.fate = fateOf(watched, there, summaries);
      watched.wasOpen ||= watched.fate === 'open';
      watched.wasComplete = isComplete(watched.begun) && isComplete(there);
      watched.begun = there ?? watched.begun;
    }
  }

  #watch(version: bigint): void {
    if (this.#versions.has(version)) return;
    this.#versions.set(version, {
      version,
      fate: 'open',
      begun: null,
      wasOpen: false,
      wasComplete: false,
      refusal: null,
    });
  }

  /**
   * The writers commit by themselves. This process commits only if that did not happen between two
   * polls, or if there is no further poll.
   */
  async #commitWhatIsDue(
    open: readonly WatchedVersion[],
    isNow: boolean,
    signal: AbortSignal,
  ): Promise<boolean> {
    let hasCommitted = false;
    for (const watched of open) {
      if (!isComplete(watched.begun) || watched.refusal !== null || !(isNow || watched.wasComplete)) continue;
      try {
        await this.#manager.commit({ version: watched.version, timeoutMs: 0, signal });
        hasCommitted = true;
      } catch (thrown) {
        throwIfAborted(signal);
        const error = toCheckpointError(thrown);
        if (error.status === 'permanent') watched.refusal = error;
      }
    }
    return hasCommitted;
  }

  #sorted(): WatchedVersion[] {
    return [...this.#versions.values()].sort((a, b) => (a.version < b.version ? -1 : 1));
  }

  #waited(): Waited {
    const { clock, beganMs } = this.#options;
    const nowMs = clock.monotonicMs();
    const answeredMs = this.#answeredMs;
    if (answeredMs === null) throw this.#unknown();
    const forMs = nowMs - answeredMs;
    const silent = this.#unanswered && forMs > SILENT_FROM_MS ? { forMs, ...this.#unanswered } : null;
    return { durable: this.#durable, versions: this.#sorted(), waitedMs: nowMs - beganMs, silent };
  }

  #unknown(): CheckpointError {
    const { beganMs, untilMs } = this.#options;
    const within = formatRoughDuration(untilMs - beganMs);
    return new CheckpointError(
      'TimedOut',
      `it is not known what is durable: the store did not answer within ${within}`,
      { context: { store: this.#manager.uri }, cause: this.#unanswered?.error },
    );
  }
}

type Looked = 'nothing is open' | 'committed' | 'some are open';

function fateOf(
  { version, fate, begun }: WatchedVersion,
  there: BegunVersion | null,
  summaries: readonly CheckpointSummary[],
): Fate {
  const onPath = summaries.filter(({ isLeftBehind }) => !isLeftBehind);
  if (fate === 'committed' || onPath.some((summary) => summary.version === version)) return 'committed';
  if (onPath.some((summary) => summary.version > version)) return 'passed-over';
  return there !== null || begun === null ? 'open' : 'over';
}

function isComplete(begun: BegunVersion | null): boolean {
  return begun !== null && begun.missing.length === 0;
}
