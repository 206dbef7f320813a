/** A read lease on one checkpoint. Until it expires, collection does not remove the bytes. */

import type { CheckpointId } from '../../contract/checkpoint-manager.ts';
import { CheckpointError, isCheckpointError, toCheckpointError } from '../../contract/errors.ts';
import { encodeRecord, leaseKey } from '../../format/index.ts';
import { findById } from '../../plan/state.ts';
import { createRecord, deleteForTidiness, type TidinessLimits, withDeadline } from '../records/index.ts';
import type { RunContext } from '../run/index.ts';

const RENEWALS_PER_LIFE = 3;
const NONCE_DIGITS = 16;
/** A holder that is not used continues to renew for this many terms of its lease. */
const IDLE_LIVES = 4;
/** Made once: ends the wait for the next renewal. */
const ENDED = new CheckpointError('Aborted', 'the lease is not needed any more');
/**
 * With these errors the checkpoint is read without a lease. If it is collected meanwhile, reading
 * fails and never returns a mix.
 */
const CANNOT_WRITE = ['Denied', 'ReadOnly', 'StorageFull'] as const;

/** A key that was never used before. `InvalidArgument`: the reader's name is not valid. */
export function newLeaseKey(run: Pick<RunContext, 'random'>, id: CheckpointId, reader: string): string {
  return leaseKey(id, reader, run.random.hex(NONCE_DIGITS));
}

/** The bytes of a lease record. */
export function leaseBytes(
  { process }: RunContext,
  lease: { readonly id: CheckpointId; readonly reader: string; readonly ttlMs: number },
): Uint8Array {
  const { host, pid } = process;
  return encodeRecord('read-lease', { format: undefined, ...lease, host, pid }).bytes;
}

/**
 * Resolves when the store has acknowledged the lease. The lease counts once the catalog has been
 * read again after that.
 */
export async function writeLease(
  run: RunContext,
  { key, bytes }: { key: string; bytes: Uint8Array },
  signal: AbortSignal | undefined,
  decides?: Parameters<typeof createRecord>[4],
): Promise<void> {
  const { clock, settings } = run;
  const bounds = { clock, timeoutMs: settings.recordTimeoutMs, what: 'taking a read lease', signal };
  await withDeadline(bounds, (until) => createRecord(run, key, bytes, until, decides));
}

/**
 * Renews its lease at a third of its term (`leaseTtlMs`), from `take` until `release`. If nothing
 * was read for four terms, renewal stops until the next `use`. So a forgotten reader does not hold
 * a checkpoint for ever. The timer does not keep the process alive.
 */
export class LeaseHolder {
  readonly #run: RunContext;
  readonly #id: CheckpointId;
  readonly #reader: string;
  readonly #keys: string[] = [];
  readonly #released = new AbortController();
  readonly #lost = new AbortController();
  #validUntilMs = 0;
  #renewAtMs = 0;
  #userCount = 0;
  #lastUsedMs = 0;
  #watching: Promise<void> | undefined;
  #renewing: Promise<void> = Promise.resolve();

  private constructor(run: RunContext, id: CheckpointId) {
    this.#run = run;
    this.#id = id;
    this.#reader = `r${run.random.hex(NONCE_DIGITS)}`;
  }

  /**
   * Takes a lease, as its first user, and reads the catalog again. `null`: the checkpoint is no
   * longer live, so the caller must choose another. On a store that cannot be written there is no
   * lease. The restore then continues without one and says so in the log.
   */
  static async take(
    run: RunContext,
    id: CheckpointId,
    signal: AbortSignal | undefined,
  ): Promise<LeaseHolder | null> {
    const holder = new LeaseHolder(run, id);
    try {
      await holder.#add(signal);
    } catch (error) {
      if (!CANNOT_WRITE.some((code) => isCheckpointError(error, code))) throw error;
      run.logger.log(
        'warn',
        'no read lease: the store is read-only, so collection may remove this checkpoint while it is read',
        {
          version: `${id.version}`,
        },
      );
      await holder.use();
      return holder;
    }
    if (!(await holder.#isLive(signal))) {
      await holder.release({ signal });
      return null;
    }
    await holder.use();
    return holder;
  }

  /**
   * Call before reading. If the lease has lapsed, it is taken again first, or `lost` fires. Never
   * rejects.
   */
  async use(): Promise<void> {
    this.#userCount += 1;
    if (!this.isHeld || this.#released.signal.aborted) return;
    this.#watching ??= this.#watch();
    const { clock } = this.#run;
    if (clock.monotonicMs() >= this.#validUntilMs) await this.#renewIfDue();
  }

  /** Call once for each `use`, and for `take`: nothing is read for now. */
  rest(): void {
    this.#userCount -= 1;
    this.#lastUsedMs = this.#run.clock.monotonicMs();
  }

  /** Fires when the checkpoint was removed after the lease had lapsed. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** False on a store that cannot be written. */
  get isHeld(): boolean {
    return this.#validUntilMs > 0;
  }

  /** Ends the lease. If it is not deleted within the limits, it expires. */
  async release(limits?: TidinessLimits): Promise<void> {
    await this.leave();
    if (this.#keys.length === 0) return;
    await deleteForTidiness(this.#run, this.#keys, 'releasing a read lease', limits);
  }

  /** Stops renewal. The lease stays valid for the rest of its term. */
  async leave(): Promise<void> {
    this.#released.abort(ENDED);
    await Promise.all([this.#watching, this.#renewing]);
  }

  async #add(signal: AbortSignal | undefined): Promise<void> {
    // The term counts from sending; the store's count begins later.
    const sentAtMs = this.#run.clock.monotonicMs();
    const ttlMs = this.#run.settings.leaseTtlMs;
    this.#renewAtMs = sentAtMs + ttlMs / RENEWALS_PER_LIFE;
    const key = newLeaseKey(this.#run, this.#id, this.#reader);
    this.#keys.push(key);
    const bytes = leaseBytes(this.#run, { id: this.#id, reader: this.#reader, ttlMs });
    await writeLease(this.#run, { key, bytes }, signal);
    this.#validUntilMs = sentAtMs + ttlMs;
  }

  async #isLive(signal: AbortSignal | undefined): Promise<boolean> {
    const { answer } = await this.#run.catalog.ask(({ state }) => findById(state, this.#id), signal);
    return answer?.state === 'LIVE';
  }

  /** Adds a lease at each third of the term. The old leases are left until the end. */
  async #watch(): Promise<void> {
    const { clock } = this.#run;
    const { signal } = this.#released;
    while (!signal.aborted && !this.#isForgotten()) {
      const waitMs = this.#renewAtMs - clock.monotonicMs();
      // A wait that was ended is not an error: the loop checks the reason.
      if (waitMs > 0) await clock.sleep(waitMs, signal, { isBackground: true }).catch(() => undefined);
      else await this.#renewIfDue();
    }
    this.#watching = undefined;
  }

  #isForgotten(): boolean {
    const { clock, settings } = this.#run;
    const idleMs = clock.monotonicMs() - this.#lastUsedMs;
    return this.#userCount === 0 && idleMs >= IDLE_LIVES * settings.leaseTtlMs;
  }

  #renewIfDue(): Promise<void> {
    if (this.#run.clock.monotonicMs() >= this.#renewAtMs) this.#renewing = this.#renew();
    return this.#renewing;
  }

  async #renew(): Promise<void> {
    const { clock, logger } = this.#run;
    const signal = this.#released.signal;
    const validUntilMs = this.#validUntilMs;
    try {
      await this.#add(signal);
      // If the lease was acknowledged in time, nothing needs to be checked. After a lapse, the
      // checkpoint may be read only if it is still live.
      if (clock.monotonicMs() >= validUntilMs && !(await this.#isLive(signal))) {
        throw new CheckpointError(
          'NotFound',
          `version ${this.#id.version} was removed while it was read: its lease had lapsed`,
          { context: { version: this.#id.version, removed: true } },
        );
      }
    } catch (error) {
      if (signal.aborted) return;
      if (isCheckpointError(error, 'NotFound')) {
        this.#released.abort(ENDED);
        this.#lost.abort(error);
        return;
      }
      logger.log('warn', 'a read lease could not be renewed', { error: toCheckpointError(error).message });
    }
  }
}
