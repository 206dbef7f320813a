/** The election through an etcd: a key that expires with the lease of the elected trainer. */

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
  /**
   * The holder of this key saves. Use one key for each model that trainers train together. A key of
   * etcd, not empty.
   */
  readonly key: string;
  /** Limit for a whole `requestSave`, in milliseconds: 1 to 2^31 - 1. Default 5,000. */
  readonly timeoutMs?: number | undefined;
}

const OPTIONS: Rules<EtcdElectionOptions> = {
  ...ETCD_OPTIONS,
  key: text,
  timeoutMs: optional(duration(1, TIMER_MS_MAX)),
};

/**
 * etcd counts the time, in whole seconds. An election lasts for `blockMs` rounded up, and at least
 * for the server's shortest lease (2 seconds by default). Asking again restarts it. It survives a
 * restart of etcd, which may lengthen it but never shortens it.
 *
 * A call costs one request if another trainer holds the key, three if this one is elected, and four
 * if another one is elected at the same moment.
 */
export class EtcdElection implements Election {
  readonly #client: EtcdClient;
  readonly #key: string;
  readonly #timeoutMs: number;

  /**
   * `InvalidConfig`: an endpoint is not valid. `InvalidArgument`: the key or the timeout is not
   * valid.
   */
  constructor(options: EtcdElectionOptions) {
    checkOptions(options, OPTIONS);
    const { key, timeoutMs = TIMEOUT_MS } = options;
    this.#client = new EtcdClient(options);
    this.#key = key;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * See `Election`. `Unavailable`: no endpoint answered in time, or etcd has no leader. This
   * trainer may then have been elected; ask again to find out. `Denied`, `StorageFull`,
   * `Throttled`: reported by etcd.
   */
  async requestSave(trainerId: string, blockMs: number, options: CallOptions = {}): Promise<boolean> {
    checkRequest(trainerId, blockMs);
    const beganMs = this.#client.clock.monotonicMs();
    const call: EtcdCall = { untilMs: beganMs + this.#timeoutMs, signal: options.signal };
    const [holder] = await this.#client.range(this.#key, false, call);
    // Most trainers are not elected; this read saves them the writes.
    if (holder !== undefined && Buffer.from(holder.value).toString('utf8') !== trainerId) return false;
    const isElected = await this.#compete(trainerId, blockMs, call);
    if (isElected && this.#client.clock.monotonicMs() - beganMs >= blockMs) throw toldTooLate(blockMs);
    return isElected;
  }

  /**
   * Every grant has its own lease, so what expires is that grant and never a later one. (Paddle's
   * master set a timer with each answer, which cleared whatever grant existed when it fired.) The
   * lease that the key had before expires without a key.
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
    // An unused lease would expire by itself, and no answer depends on this request.
    if (!isElected) await client.revokeLease(lease, call).catch(() => undefined);
    return isElected;
  }
}
