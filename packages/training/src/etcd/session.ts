import { type CheckpointError, isCheckpointError, systemRandom } from '@holdfast/core/contract';
import type { EtcdCall, EtcdClient, LeaseId } from './client.ts';

const ID_DIGITS = 16;
const CLOSE_TIMEOUT_MS_MAX = 5000;

/** A worker's presence in etcd: ends when it is closed, or has not been heard of for so long. */
export class EtcdSession {
  /** Never used before. */
  readonly id = systemRandom.hex(ID_DIGITS);
  /** Of what says that the worker is there. */
  readonly presence: LeaseId;
  /** Of what it has brought to others, who may read it when the worker has ended. */
  readonly gifts: LeaseId;
  readonly #client: EtcdClient;
  readonly #timer: NodeJS.Timeout;
  readonly #presenceMs: number;
  #heardMs: number;
  #isLost = false;

  /** Both in whole seconds. */
  static async open(
    client: EtcdClient,
    { presenceSeconds, giftSeconds }: { presenceSeconds: number; giftSeconds: number },
    call: EtcdCall,
  ): Promise<EtcdSession> {
    const sinceMs = client.clock.monotonicMs();
    const presence = await client.grantLease(presenceSeconds, call);
    const gifts = await client.grantLease(giftSeconds, call);
    return new EtcdSession(client, { presence, gifts: gifts.id, sinceMs });
  }

  private constructor(
    client: EtcdClient,
    leases: { presence: { id: LeaseId; seconds: number }; gifts: LeaseId; sinceMs: number },
  ) {
    this.#client = client;
    this.presence = leases.presence.id;
    this.gifts = leases.gifts;
    this.#presenceMs = leases.presence.seconds * 1000;
    this.#heardMs = leases.sinceMs;
    // Three times: one that is lost, or late, does no harm.
    this.#timer = setInterval(() => void this.#keep(), this.#presenceMs / 3);
    // Whoever forgets to close is present until its process ends, which this does not prevent.
    this.#timer.unref();
  }

  /** The others take this worker for gone, or are about to. */
  get isLost(): boolean {
    return this.#isLost || this.#client.clock.monotonicMs() - this.#heardMs >= this.#presenceMs;
  }

  /** The others hear at once that it is gone. Safe to repeat, and never fails: unheard, it ends by itself. */
  async close(): Promise<void> {
    this.abandon();
    const timeoutMs = Math.min(this.#presenceMs, CLOSE_TIMEOUT_MS_MAX);
    const call = { untilMs: this.#client.clock.monotonicMs() + timeoutMs };
    await this.#client.revokeLease(this.presence, call).catch(() => undefined);
  }

  /** Says nothing any more, and ends by itself. */
  abandon(): void {
    this.#isLost = true;
    clearInterval(this.#timer);
  }

  async #keep(): Promise<void> {
    const nowMs = this.#client.clock.monotonicMs();
    const call = { untilMs: nowMs + this.#presenceMs };
    try {
      const kept = await Promise.all([
        this.#client.keepLease(this.presence, call),
        this.#client.keepLease(this.gifts, call),
      ]);
      if (kept.every(Boolean)) this.#heardMs = Math.max(this.#heardMs, nowMs);
      else this.abandon();
    } catch (error) {
      // It is asked again soon; a time without an answer is a time unheard.
      if (!isCheckpointError(error)) throw error;
    }
  }
}

/** What the lease has ended for is to begin anew. */
export function isLeaseEnd(error: unknown): error is CheckpointError {
  return isCheckpointError(error, 'NotFound');
}
