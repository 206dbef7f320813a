import { hostname } from 'node:os';
import { type GrantOptions, type Grants, type SaveGrant, withGrants } from '@holdfast/core';
import {
  aClock,
  aLogger,
  aProcess,
  aRandom,
  aStore,
  type CallOptions,
  checkOptions,
  type ObjectStore,
  optional,
  plainObject,
  type Rules,
  systemClock,
} from '@holdfast/core/contract';
import { checkRequest, type Election, toldTooLate } from './election.ts';

/** Clocks may differ by a quarter in rate before the next trainer is elected too early. */
const PATIENCE = 1.25;

/** A grant, and since when this process has seen it as the newest. */
interface Sight {
  readonly grant: SaveGrant;
  readonly sinceMs: number;
}

export type StoreElectionOptions = Omit<GrantOptions, 'signal'>;

const OPTIONS: Rules<StoreElectionOptions> = {
  settings: optional(plainObject),
  clock: optional(aClock),
  random: optional(aRandom),
  logger: optional(aLogger),
  process: optional(aProcess),
};

/**
 * An election on the store of a run, by numbered grants below `elections/`; it needs no other
 * service. Another trainer is elected only after this object has seen the same grant, unchanged,
 * for 1.25 times its `blockMs`. It measures this by its own monotonic clock and reads no wall
 * clock.
 *
 * Keep one object for each trainer, because what it has seen counts from call to call. The first
 * call of a new object never takes a grant from another trainer, however old that grant is: ask
 * again later.
 *
 * A call costs one list request, and at most four more if it elects a trainer. Each `true` leaves
 * one object of about 300 bytes in the store, for good. A new object lists them all once, 1,000 per
 * request. Keep the store open until the last call has ended.
 *
 * Errors besides those of `requestSave`: the store's own, and `TimedOut` after
 * `settings.recordTimeoutMs`. `OutcomeUnknown`: a grant was being written at that time, or when the
 * signal fired. Each of these errors may leave a grant of this trainer, which blocks the others
 * once. `StoreRegressed`, `Corrupt`: a grant was deleted or damaged.
 */
export class StoreElection implements Election {
  readonly #store: ObjectStore;
  readonly #options: StoreElectionOptions;
  #sight: Sight | null = null;

  /** `store`: the result of `openStore(uri)` for the run. */
  constructor(store: ObjectStore, options: StoreElectionOptions = {}) {
    aStore('store', store);
    checkOptions(options, OPTIONS);
    this.#store = store;
    this.#options = { process: { host: hostname(), pid: process.pid }, ...options };
  }

  /**
   * The newest grant that this object had seen at the last call, or `null`. Its trainer is elected,
   * or was.
   */
  get newest(): SaveGrant | null {
    return this.#sight?.grant ?? null;
  }

  /**
   * How long, in milliseconds, another trainer must see `newest` unchanged before it can be
   * elected. 0 without a grant.
   */
  get patienceMs(): number {
    return (this.newest?.blockMs ?? 0) * PATIENCE;
  }

  async requestSave(trainerId: string, blockMs: number, { signal }: CallOptions = {}): Promise<boolean> {
    checkRequest(trainerId, blockMs);
    const beganMs = this.#nowMs();
    const isElected = await withGrants(this.#store, { ...this.#options, signal }, async (grants) => {
      // Repeats only if the number is taken or was used before. Ends at the latest with the time
      // limit of `withGrants`.
      for (;;) {
        const sight = await this.#look(grants);
        if (sight !== null && sight.grant.trainerId !== trainerId && !this.#isOver(sight)) return false;
        const { grant, isOurs } = await grants.append((sight?.grant.seq ?? 0) + 1, { trainerId, blockMs });
        this.#saw(grant);
        // A higher grant: others used and collected this number while this request was in flight,
        // so it won nothing.
        if (isOurs && (await this.#look(grants))?.grant.id === grant.id) return true;
      }
    });
    if (isElected && this.#nowMs() - beganMs >= blockMs) throw toldTooLate(blockMs);
    return isElected;
  }

  async #look(grants: Grants): Promise<Sight | null> {
    const grant = await grants.newest(this.#sight?.grant ?? null);
    return grant === null ? this.#sight : this.#saw(grant);
  }

  /**
   * An older grant never replaces a newer one: of concurrent calls, the last one to be answered
   * may get the older answer.
   */
  #saw(grant: SaveGrant): Sight {
    if (this.#sight === null || this.#sight.grant.seq < grant.seq) {
      this.#sight = { grant, sinceMs: this.#nowMs() };
    }
    return this.#sight;
  }

  #isOver({ sinceMs }: Sight): boolean {
    return this.#nowMs() - sinceMs >= this.patienceMs;
  }

  #nowMs(): number {
    return (this.#options.clock ?? systemClock).monotonicMs();
  }
}
