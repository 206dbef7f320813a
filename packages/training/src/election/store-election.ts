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

/** Clocks may run apart by a quarter before the next one is elected too early. */
const PATIENCE = 1.25;

/** A grant, and since when this process has seen it as the highest. */
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
 * An election on the store of a run, by numbered grants below `elections/`; nothing else runs. Another trainer is elected only after this
 * object has seen the same grant, unchanged, for 1.25 times its `blockMs` by its own monotonic clock; no wall clock is asked. What it has seen
 * is kept from call to call, so a trainer keeps one object, and the first call of a new one never takes a grant from another trainer, however
 * old that is: ask again later.
 *
 * One list request, and at most four more where somebody is elected. Each `true` leaves one object of about 300 bytes in the store, for good;
 * a new object lists them all once, 1,000 in one request. The store stays open, and must until the last call has ended.
 *
 * Besides those of `requestSave`, errors are the store's own and, after `settings.recordTimeoutMs`, `TimedOut`. `OutcomeUnknown`: a grant was
 * on its way then, or when the signal fired. Any of them may leave a grant of this trainer, which blocks the others once. `StoreRegressed`, `Corrupt`: somebody has deleted or damaged a grant.
 */
export class StoreElection implements Election {
  readonly #store: ObjectStore;
  readonly #options: StoreElectionOptions;
  #sight: Sight | null = null;

  /** `store`: what `openStore(uri)` gives for the run. */
  constructor(store: ObjectStore, options: StoreElectionOptions = {}) {
    aStore('store', store);
    checkOptions(options, OPTIONS);
    this.#store = store;
    this.#options = { process: { host: hostname(), pid: process.pid }, ...options };
  }

  /** The newest grant that this object has seen, as of the last call; `null`: none. Its trainer is elected, or was. */
  get newest(): SaveGrant | null {
    return this.#sight?.grant ?? null;
  }

  /** How long another trainer must see `newest` unchanged before it can be elected, milliseconds; 0 without one. */
  get patienceMs(): number {
    return (this.newest?.blockMs ?? 0) * PATIENCE;
  }

  async requestSave(trainerId: string, blockMs: number, { signal }: CallOptions = {}): Promise<boolean> {
    checkRequest(trainerId, blockMs);
    const beganMs = this.#nowMs();
    const isElected = await withGrants(this.#store, { ...this.#options, signal }, async (grants) => {
      // Comes round again only if the number is taken, or was used before; ends at the latest with the time that `withGrants` gives.
      for (;;) {
        const sight = await this.#look(grants);
        if (sight !== null && sight.grant.trainerId !== trainerId && !this.#isOver(sight)) return false;
        const { grant, isOurs } = await grants.append((sight?.grant.seq ?? 0) + 1, { trainerId, blockMs });
        this.#saw(grant);
        // A higher one: others had used and collected our number while our request was on its way, and nothing was won.
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

  /** Of calls at the same time one may hear an older answer last: what was seen never goes back. */
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
