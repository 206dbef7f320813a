/** The election by an etcd: a key that ends with the lease of who is elected. */

import {
  type CallOptions,
  checkOptions,
  duration,
  isCheckpointError,
  optional,
  type Rules,
  TIMER_MS_MAX,
  text,
} from '@holdfast/core/contract';
import { checkRequest, type Election, toldTooLate } from '../election/election.ts';
import { ETCD_OPTIONS, type EtcdCall, EtcdClient, type EtcdOptions } from './client.ts';

const TIMEOUT_MS = 5000;

export interface EtcdElectionOptions extends EtcdOptions {
  /** Whose holder saves: one for each model that trainers train together. A key of etcd's, not empty. */
  readonly key: string;
  /** For all of `requestSave`: 1 to 2^31 - 1. 5,000 if not given. */
  readonly timeoutMs?: number | undefined;
}

const OPTIONS: Rules<EtcdElectionOptions> = {
  ...ETCD_OPTIONS,
  key: text,
  timeoutMs: optional(duration(1, TIMER_MS_MAX)),
};

/**
 * etcd counts the time, in whole seconds: an election lasts for `blockMs` rounded up, and for the server's shortest lease at least (2 seconds
 * unless it is set up otherwise). Asking again begins it anew. It outlives a restart of etcd, which may make it longer, not shorter.
 * One request of a trainer that is not elected, three of one that is.
 */
export class EtcdElection implements Election {
  readonly #client: EtcdClient;
  readonly #key: string;
  readonly #timeoutMs: number;

  /** `InvalidConfig`: endpoints that are none. `InvalidArgument`: a key or a timeout that is none. */
  constructor(options: EtcdElectionOptions) {
    checkOptions(options, OPTIONS);
    const { key, timeoutMs = TIMEOUT_MS } = options;
    this.#client = new EtcdClient(options);
    this.#key = key;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * See `Election`. `Unavailable`: no endpoint answered in time, or etcd has no leader. `Denied`, `StorageFull`, `Throttled`: etcd says so.
   * Whether this trainer was elected is unknown after `Unavailable`: asking again says it.
   */
  async requestSave(trainerId: string, blockMs: number, options: CallOptions = {}): Promise<boolean> {
    checkRequest(trainerId, blockMs);
    const beganMs = this.#client.clock.monotonicMs();
    const call: EtcdCall = { untilMs: beganMs + this.#timeoutMs, signal: options.signal };
    const [holder] = await this.#client.range(this.#key, false, call);
    // Most ask in vain: they get by without writing.
    if (holder !== undefined && Buffer.from(holder.value).toString('utf8') !== trainerId) return false;
    const isElected = await this.#compete(trainerId, blockMs, call);
    if (isElected && this.#client.clock.monotonicMs() - beganMs >= blockMs) throw toldTooLate(blockMs);
    return isElected;
  }

  /**
   * A lease of its own for every grant: what ends is that grant, and never a later one. (Paddle's master set a timer with each answer, which
   * cleared whatever there was when it rang.) The lease that the key had before ends without a key.
   */
  async #compete(trainerId: string, blockMs: number, call: EtcdCall): Promise<boolean> {
    const client = this.#client;
    const { id: lease } = await client.grantLease(Math.ceil(blockMs / 1000), call);
    const put = { key: this.#key, value: Buffer.from(trainerId, 'utf8'), lease };
    let isElected: boolean;
    try {
      isElected = await client.putIfAbsentOrSame(put, call);
    } catch (error) {
      throw isCheckpointError(error, 'NotFound') ? toldTooLate(blockMs, error) : error;
    }
    // Unused, it would end by itself; no answer depends on whether this arrives.
    if (!isElected) await client.revokeLease(lease, call).catch(() => undefined);
    return isElected;
  }
}
