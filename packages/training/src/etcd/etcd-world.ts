import { CheckpointError, isCheckpointError } from '@holdfast/core/contract';
import type { World } from '../coordinator.ts';
import { RecoverableError } from '../errors.ts';
import type { EtcdCall, EtcdChange, EtcdClient } from './client.ts';
import {
  hasEnded,
  isNewWorldDue,
  type MeetingKeys,
  type MeetingRecords,
  type MetWorld,
  type WorldSizes,
} from './meeting.ts';
import { untilAnswered } from './patience.ts';
import { type EtcdSession, isLeaseEnd } from './session.ts';

/** etcd accepts 1.5 MiB in one request by default; this stays below it. */
export const BYTES_MAX = 1024 ** 2;
/**
 * A rank this many steps behind another may leave after a different step than the others, which
 * costs them one step.
 */
const VOTES_KEPT = 1024;

export interface EtcdWorldParts {
  readonly client: EtcdClient;
  readonly keys: MeetingKeys;
  readonly session: EtcdSession;
  readonly policy: WorldSizes;
  readonly timeoutMs: number;
  readonly met: MetWorld;
  readonly readMeeting: (call: EtcdCall) => Promise<MeetingRecords>;
}

export class EtcdWorld implements World {
  readonly rank: number;
  readonly size: number;
  readonly #parts: EtcdWorldParts;
  #gatherCount = 0;
  #voteCount = 0;
  #hasLeft = false;

  constructor(parts: EtcdWorldParts) {
    this.#parts = parts;
    this.rank = parts.met.members.indexOf(parts.session.id);
    this.size = parts.met.members.length;
  }

  get seq(): number {
    return this.#parts.met.seq;
  }

  async allGather(bytes: Uint8Array): Promise<readonly Uint8Array[]> {
    if (bytes.length > BYTES_MAX) {
      const message = `allGather of ${bytes.length} bytes: a rank may send at most ${BYTES_MAX}`;
      throw new CheckpointError('InvalidArgument', message);
    }
    return this.#gather(bytes);
  }

  async barrier(): Promise<void> {
    await this.#gather(new Uint8Array());
  }

  /**
   * The first rank that asks for the nth time decides for all ranks. So all leave after the same
   * step. True without a request if this world has ended. True if etcd does not answer: the
   * rendezvous then reports the problem.
   */
  async isNewWorldDue(): Promise<boolean> {
    const { client, keys, session, policy, met, readMeeting } = this.#parts;
    const number = this.#voteCount++;
    if (this.#isOutside()) return true;
    const key = keys.vote(met.seq, number);
    try {
      return await untilAnswered(client, this.#patience('no vote was counted'), async (call) => {
        const [decided] = await client.range(key, false, call);
        if (decided !== undefined) return Buffer.from(decided.value).toString('utf8') === 'true';
        const isDue = isNewWorldDue(await readMeeting(call), met.seq, policy);
        const changes: EtcdChange[] = [{ put: key, value: Buffer.from(String(isDue)), lease: session.gifts }];
        const old = number - VOTES_KEPT;
        if (old >= 0) changes.push({ remove: keys.vote(met.seq, old) });
        return (await client.change([{ key, modRevision: 0n }], changes, call)) ? isDue : null;
      });
    } catch (error) {
      if (isLeaseEnd(error) || isCheckpointError(error, 'TimedOut')) return true;
      throw error;
    }
  }

  leave(): void {
    this.#hasLeft = true;
  }

  #isOutside(): boolean {
    return this.#hasLeft || this.#parts.session.isLost;
  }

  #patience(what: string): { timeoutMs: number; what: string } {
    return { timeoutMs: this.#parts.timeoutMs, what };
  }

  async #gather(bytes: Uint8Array): Promise<readonly Uint8Array[]> {
    const number = this.#gatherCount++;
    try {
      let isBrought = false;
      return await untilAnswered(
        this.#parts.client,
        this.#patience('not all ranks arrived'),
        async (call) => {
          if (this.#isOutside()) throw new RecoverableError('this worker is no longer in a world');
          if (!isBrought) await this.#bring(number, bytes, call);
          isBrought = true;
          return await this.#collect(number, call);
        },
      );
    } catch (error) {
      const isOthers = isLeaseEnd(error) || isCheckpointError(error, 'TimedOut');
      throw isOthers ? new RecoverableError(error.message, { cause: error }) : error;
    }
  }

  /**
   * All ranks have read the bytes of two calls ago, because they have been at the call in between.
   */
  async #bring(number: number, bytes: Uint8Array, call: EtcdCall): Promise<void> {
    const { client, keys, session, met } = this.#parts;
    const put = keys.brought(met.seq, number, this.rank);
    const changes: EtcdChange[] = [{ put, value: bytes, lease: session.gifts }];
    if (number >= 2) changes.push({ remove: keys.brought(met.seq, number - 2, this.rank) });
    await client.change([], changes, call);
  }

  async #collect(number: number, call: EtcdCall): Promise<readonly Uint8Array[] | null> {
    const { client, keys, met, readMeeting } = this.#parts;
    // Read the meeting before the count: a rank that wrote its bytes and then left still counts.
    const isEnded = hasEnded(await readMeeting(call), met.seq);
    const place = keys.gathering(met.seq, number);
    if ((await client.count(place, call)) === this.size) {
      const brought = await client.range(place, true, call);
      const byRank = [...brought].sort((a, b) => (a.key < b.key ? -1 : 1));
      return byRank.map(({ value }) => value);
    }
    if (isEnded)
      throw new RecoverableError(`world ${met.seq} has ended: a rank is gone, or joined another rendezvous`);
    return null;
  }
}
