/**
 * One world: the workers that met, until the first of them leaves. It handles their group calls,
 * and their votes on whether a new rendezvous is due.
 */

import type { Call, Tell } from './answers.ts';
import { BODY_BYTES_MAX } from './frames.ts';

export type GroupCall = 'allGather' | 'barrier';

export interface Contribution {
  readonly call: GroupCall;
  /** Counts the group calls of one worker in one world, from 0. */
  readonly seq: number;
  readonly bytes: Uint8Array;
}

interface Gathering {
  readonly call: GroupCall;
  readonly dueMs: number;
  readonly brought: Map<number, { readonly call: Call; readonly bytes: Uint8Array }>;
}

interface Vote {
  readonly isDue: boolean;
  askedCount: number;
}

export class RunningWorld {
  /** Ids of the workers, by rank. */
  readonly members: readonly number[];
  readonly #tell: Tell;
  readonly #gatherings = new Map<number, Gathering>();
  readonly #votes = new Map<number, Vote>();
  #endedWhy: string | null = null;

  constructor(members: readonly number[], tell: Tell) {
    this.members = members;
    this.#tell = tell;
  }

  get hasEnded(): boolean {
    return this.#endedWhy !== null;
  }

  /** When the first group call times out; `Infinity` if none waits. */
  get dueMs(): number {
    return Math.min(...[...this.#gatherings.values()].map(({ dueMs }) => dueMs));
  }

  gather(call: Call, { call: kind, seq, bytes }: Contribution, dueMs: number): void {
    if (this.#endedWhy !== null) {
      this.#tell(call, { outcome: 'recoverable', message: this.#endedWhy });
      return;
    }
    const gathering = this.#gatherings.get(seq) ?? { call: kind, dueMs, brought: new Map() };
    gathering.brought.set(call.worker, { call, bytes });
    const isMatch = gathering.call === kind;
    const isComplete = gathering.brought.size === this.members.length;
    if (isMatch && !isComplete) this.#gatherings.set(seq, gathering);
    else this.#gatherings.delete(seq);
    if (isMatch && isComplete) this.#complete(gathering);
    if (isMatch) return;
    const rank = this.members.indexOf(call.worker);
    this.#refuse(
      gathering,
      `rank ${rank} calls ${kind} where others call ${gathering.call}: all ranks must make the same calls in the same order`,
    );
  }

  /**
   * Tells a worker whether a new rendezvous is due after its step. Each worker names its step. The
   * first to ask about a step decides for all ranks, so they leave the world after the same step.
   * Exception: once a worker has left, the answer is true.
   */
  vote(call: Call, seq: number, isDueNow: boolean): void {
    const vote = this.#votes.get(seq) ?? { isDue: isDueNow, askedCount: 0 };
    vote.askedCount += 1;
    if (vote.askedCount < this.members.length) this.#votes.set(seq, vote);
    else this.#votes.delete(seq);
    this.#tell(call, { outcome: 'vote', isDue: vote.isDue || this.hasEnded });
  }

  /** Ends the world. Pending and later group calls are answered with `why`. */
  end(why: string): void {
    if (this.hasEnded) return;
    this.#endedWhy = why;
    for (const { brought } of this.#gatherings.values()) {
      for (const { call } of brought.values()) this.#tell(call, { outcome: 'recoverable', message: why });
    }
    this.#gatherings.clear();
  }

  /** Workers that are missing in a group call that has timed out. */
  overdue(nowMs: number): number[] {
    const late = [...this.#gatherings.values()].filter(({ dueMs }) => dueMs <= nowMs);
    return this.members.filter((member) => late.some(({ brought }) => !brought.has(member)));
  }

  #complete(gathering: Gathering): void {
    const parts = this.members.map((member) => gathering.brought.get(member)?.bytes ?? new Uint8Array());
    const totalBytes = parts.reduce((sum, part) => sum + part.length, 0);
    if (totalBytes > BODY_BYTES_MAX) {
      const message = `allGather of ${totalBytes} bytes by ${parts.length} workers: at most ${BODY_BYTES_MAX} together`;
      this.#refuse(gathering, message);
      return;
    }
    for (const { call } of gathering.brought.values()) this.#tell(call, { outcome: 'gathered', parts });
  }

  #refuse(gathering: Gathering, message: string): void {
    for (const { call } of gathering.brought.values()) {
      this.#tell(call, { outcome: 'refused', code: 'InvalidArgument', message });
    }
  }
}
