/** A reader's expiring claim on one checkpoint: as long as it is valid, collection leaves the bytes alone. */

import type { CheckpointId } from '../contract/checkpoint-manager.ts';
import { CheckpointError, isCheckpointError, toCheckpointError } from '../contract/errors.ts';
import { encodeRecord, leaseKey } from '../format/index.ts';
import { findById } from '../plan/state.ts';
import type { Catalog } from './catalog.ts';
import { withDeadline } from './deadline.ts';
import type { Engine } from './engine.ts';
import { createRecord, deleteForTidiness } from './records.ts';

const RENEWALS_PER_LIFE = 3;
const NONCE_DIGITS = 16;
/** A checkpoint can be read all the same. Should others collect it meanwhile, that is an error, never a mix. */
const CANNOT_WRITE = ['Denied', 'ReadOnly', 'StorageFull'] as const;

/** A key that was never used before. `InvalidArgument`: the reader's name is none. */
export function newLeaseKey(engine: Pick<Engine, 'random'>, id: CheckpointId, reader: string): string {
  return leaseKey(id, reader, engine.random.hex(NONCE_DIGITS));
}

/** What a lease says. */
export function leaseBytes(
  { process }: Engine,
  lease: { readonly id: CheckpointId; readonly reader: string; readonly ttlMs: number },
): Uint8Array {
  const { host, pid } = process;
  return encodeRecord('read-lease', { format: undefined, ...lease, host, pid }).bytes;
}

/** Resolves when the store has acknowledged it: from then on it counts, once the catalog has been read again. */
export async function writeLease(
  engine: Engine,
  { key, bytes }: { key: string; bytes: Uint8Array },
  signal: AbortSignal | undefined,
  decides?: Parameters<typeof createRecord>[4],
): Promise<void> {
  const { clock, settings } = engine;
  const bounds = { clock, timeoutMs: settings.recordTimeoutMs, what: 'taking a read lease', signal };
  await withDeadline(bounds, (until) => createRecord(engine, key, bytes, until, decides));
}

export class LeaseHolder {
  readonly #engine: Engine;
  readonly #catalog: Catalog;
  readonly #id: CheckpointId;
  readonly #reader: string;
  readonly #keys: string[] = [];
  readonly #released = new AbortController();
  readonly #lost = new AbortController();
  #validUntilMs = 0;
  #renewing: Promise<void> = Promise.resolve();

  private constructor(engine: Engine, catalog: Catalog, id: CheckpointId) {
    this.#engine = engine;
    this.#catalog = catalog;
    this.#id = id;
    this.#reader = `r${engine.random.hex(NONCE_DIGITS)}`;
  }

  /**
   * Takes a lease and reads the catalog again. `null`: the checkpoint is not live any more, so another is to be chosen.
   * On a store that cannot be written there is no lease; the restore goes on without one and says so in the log.
   */
  static async take(
    engine: Engine,
    catalog: Catalog,
    id: CheckpointId,
    signal: AbortSignal | undefined,
  ): Promise<LeaseHolder | null> {
    const holder = new LeaseHolder(engine, catalog, id);
    try {
      await holder.#add(signal);
    } catch (error) {
      if (!CANNOT_WRITE.some((code) => isCheckpointError(error, code))) throw error;
      engine.logger.log(
        'warn',
        'no read lease: the store cannot be written, so collection may remove this checkpoint while it is read',
        {
          version: `${id.version}`,
        },
      );
      return holder;
    }
    if (!(await holder.#isLive(signal))) {
      await holder.release();
      return null;
    }
    holder.#renewing = holder.#renew();
    return holder;
  }

  /** Fires when the checkpoint was removed after the lease had lapsed. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** False on a store that cannot be written. */
  get isHeld(): boolean {
    return this.#validUntilMs > 0;
  }

  /** Ends the claim. A lease that is not deleted expires. */
  async release(): Promise<void> {
    await this.leave();
    if (this.#keys.length > 0) await deleteForTidiness(this.#engine, this.#keys, 'releasing a read lease');
  }

  /** Renews it no longer: it goes on for what is left of its life. */
  async leave(): Promise<void> {
    this.#released.abort();
    await this.#renewing;
  }

  async #add(signal: AbortSignal | undefined): Promise<void> {
    const sentAtMs = this.#engine.clock.monotonicMs(); // life counts from sending: the store's count begins later
    const ttlMs = this.#engine.settings.leaseTtlMs;
    const key = newLeaseKey(this.#engine, this.#id, this.#reader);
    this.#keys.push(key);
    const bytes = leaseBytes(this.#engine, { id: this.#id, reader: this.#reader, ttlMs });
    await writeLease(this.#engine, { key, bytes }, signal);
    this.#validUntilMs = sentAtMs + ttlMs;
  }

  async #isLive(signal: AbortSignal | undefined): Promise<boolean> {
    const { answer } = await this.#catalog.ask(({ state }) => findById(state, this.#id), signal);
    return answer?.state === 'LIVE';
  }

  /** Adds a lease at a third of the life, again and again; the old ones are left until the end. */
  async #renew(): Promise<void> {
    const { clock, settings } = this.#engine;
    const signal = this.#released.signal;
    while (!signal.aborted) {
      try {
        await clock.sleep(settings.leaseTtlMs / RENEWALS_PER_LIFE, signal);
        const validUntilMs = this.#validUntilMs;
        await this.#add(signal);
        // Acknowledged in time: nothing to ask. After a lapse only a live checkpoint is still ours to read.
        if (clock.monotonicMs() >= validUntilMs && !(await this.#isLive(signal))) {
          throw new CheckpointError(
            'NotFound',
            `version ${this.#id.version} was removed while it was read: its lease had lapsed`,
          );
        }
      } catch (error) {
        if (signal.aborted) return;
        if (isCheckpointError(error, 'NotFound')) {
          this.#lost.abort(error);
          return;
        }
        this.#engine.logger.log('warn', 'a read lease could not be renewed', {
          error: toCheckpointError(error).message,
        });
      }
    }
  }
}
