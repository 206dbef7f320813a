import { type CheckpointError, isCheckpointError, systemRandom } from '@holdfast/core/contract';
import type { EtcdCall, EtcdClient, LeaseId } from './client.ts';

const ID_DIGITS = 16;
const CLOSE_TIMEOUT_MS_MAX = 5000;

/** A worker's presence in etcd. Ends when it is closed, or when it was not renewed in time. */
export class EtcdSession {
  /** Unique: never used before. */
  readonly id = systemRandom.hex(ID_DIGITS);
  /** Lease of the key that says the worker is present. */
  readonly presence: LeaseId;
  /**
   * Lease of the bytes that the worker passed to others. They may read these after the worker has
   * ended.
   */
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
    // Three renewals per lease time: one that is lost or late does no harm.
    this.#timer = setInterval(() => void this.#keep(), this.#presenceMs / 3);
    // A session that is not closed stays until its process ends; the timer does not keep the
    // process alive.
    this.#timer.unref();
  }

  /** The others consider this worker gone, or are about to. */
  get isLost(): boolean {
    return this.#isLost || this.#client.clock.monotonicMs() - this.#heardMs >= this.#presenceMs;
  }

  /**
   * Tells the others at once that this worker is gone. Safe to repeat. Never fails: if etcd does
   * not answer, the lease expires by itself.
   */
  async close(): Promise<void> {
    this.abandon();
    const timeoutMs = Math.min(this.#presenceMs, CLOSE_TIMEOUT_MS_MAX);
    const call = { untilMs: this.#client.clock.monotonicMs() + timeoutMs };
    await this.#client.revokeLease(this.presence, call).catch(() => undefined);
  }

  /** Stops renewing, so the session expires by itself. */
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
      // The next renewal follows soon. Time without an answer counts as not renewed.
      if (!isCheckpointError(error)) throw error;
    }
  }
}

/** The lease has ended, so a new session is needed. */
export function isLeaseEnd(error: unknown): error is CheckpointError {
  return isCheckpointError(error, 'NotFound');
}
