/**
 * Who meets whom, and when: decides, and leaves time and bytes to the server. A worker is the number of its connection, so earlier ones have
 * lower numbers, and the ranks of a world are in their order: whoever has been there longest is rank 0, and those who stay keep their order.
 */

import type { Call, Tell } from './answers.ts';
import type { Policy } from './policy.ts';
import { type Contribution, RunningWorld } from './running-world.ts';

export interface MeetingOptions {
  /** Once enough are there, and before the world begins: how long to wait for others after the last one came. */
  readonly lastCallMs: number;
  readonly tell: Tell;
  /** Ends the connection of a worker for whom others have waited too long; `leave` is not called for it. */
  readonly expel: (worker: number) => void;
}

/** `idle`: connected, and not yet at a rendezvous. `training`: in a world, be it over or not. `finished`: without data. */
type Place = 'idle' | 'waiting' | 'training' | 'finished';

interface Waiting {
  readonly call: Call;
  readonly sinceMs: number;
}

export class Meeting {
  readonly #options: MeetingOptions;
  #policy: Policy | null = null;
  readonly #places = new Map<number, Place>();
  readonly #waiting = new Map<number, Waiting>();
  #world: RunningWorld | null = null;
  #isOver = false;

  constructor(options: MeetingOptions) {
    this.#options = options;
  }

  /** Takes in a worker; the first decides on the policy. Why not, if it wants another one; nothing if it is in. */
  enter(worker: number, policy: Policy): string | null {
    const present = this.#policy;
    for (const name of ['minWorkers', 'maxWorkers', 'timeoutMs'] as const) {
      if (present !== null && present[name] !== policy[name]) {
        return `${name} ${policy[name]}: the workers that are there have ${present[name]}, and all are to have the same`;
      }
    }
    this.#policy = policy;
    this.#places.set(worker, 'idle');
    return null;
  }

  has(worker: number): boolean {
    return this.#places.has(worker);
  }

  rendezvous(call: Call, nowMs: number): void {
    this.#leaveWorld(call.worker, 'went to a new rendezvous', nowMs);
    this.#places.set(call.worker, 'waiting');
    this.#waiting.set(call.worker, { call, sinceMs: nowMs });
    this.tick(nowMs);
  }

  gather(call: Call, contribution: Contribution, nowMs: number): void {
    const world = this.#worldOf(call.worker);
    if (world !== null) world.gather(call, contribution, nowMs + this.#timeoutMs());
    else this.#options.tell(call, { outcome: 'recoverable', message: 'this worker is in no world' });
  }

  vote(call: Call, seq: number): void {
    const world = this.#worldOf(call.worker);
    if (world !== null) world.vote(call, seq, this.#isOver || this.#isWorldWanted());
    else this.#options.tell(call, { outcome: 'vote', isDue: true });
  }

  /** Nobody joins any more. Those who train on without this worker hear of it, as they cannot gather without it. */
  finish(call: Call, nowMs: number): void {
    this.#isOver = true;
    this.#leaveWorld(call.worker, 'has no data left', nowMs);
    this.#places.set(call.worker, 'finished');
    this.#options.tell(call, { outcome: 'done' });
    this.tick(nowMs);
  }

  /** It is gone, whatever it was doing. */
  leave(worker: number, nowMs: number): void {
    this.#forget(worker, 'is gone', nowMs);
    this.tick(nowMs);
  }

  /** When `tick` is to be called if nothing else happens before; `Infinity`: never. */
  nextTickMs(): number {
    const worldMs = this.#world?.dueMs ?? Number.POSITIVE_INFINITY;
    return Math.min(worldMs, this.#roundDueMs(), this.#lastCallEndMs());
  }

  /** Does what is due at this moment. Safe to repeat. */
  tick(nowMs: number): void {
    for (const worker of this.#world?.overdue(nowMs) ?? []) this.#expel(worker, nowMs);
    if (this.#isOver) this.#stopWaiting();
    else this.#meet(nowMs);
  }

  #meet(nowMs: number): void {
    const isRoundDue = this.#roundDueMs() <= nowMs && !this.#isWorldFull();
    if (isRoundDue) for (const worker of this.#absent()) this.#expel(worker, nowMs);
    const isLastCallOver = this.#isEverybodyHere() && (isRoundDue || this.#lastCallEndMs() <= nowMs);
    if (isLastCallOver || this.#isComplete()) this.#begin();
    for (const [worker, { sinceMs }] of this.#waiting) {
      if (sinceMs + this.#timeoutMs() <= nowMs) this.#giveUp(worker);
    }
  }

  #worldOf(worker: number): RunningWorld | null {
    return this.#places.get(worker) === 'training' ? this.#world : null;
  }

  #timeoutMs(): number {
    return this.#policy?.timeoutMs ?? 0;
  }

  /** The first that waits has waited long enough. */
  #roundDueMs(): number {
    return Math.min(...[...this.#waiting.values()].map(({ sinceMs }) => sinceMs + this.#timeoutMs()));
  }

  /** Nobody who waits could be taken in: they are there in case that somebody leaves. */
  #isWorldFull(): boolean {
    const world = this.#world;
    return world !== null && !world.hasEnded && world.members.length >= (this.#policy?.maxWorkers ?? 0);
  }

  #isWorldWanted(): boolean {
    return this.#waiting.size > 0 && !this.#isWorldFull();
  }

  #isEnough(): boolean {
    return this.#waiting.size >= (this.#policy?.minWorkers ?? Number.POSITIVE_INFINITY);
  }

  /** Those who are expected, as they are connected and have data left. */
  #absent(): number[] {
    return [...this.#places].filter(([, at]) => at === 'idle' || at === 'training').map(([worker]) => worker);
  }

  #isEverybodyHere(): boolean {
    return this.#isEnough() && this.#absent().length === 0;
  }

  #isComplete(): boolean {
    return this.#isEverybodyHere() && this.#waiting.size >= (this.#policy?.maxWorkers ?? 0);
  }

  #lastCallEndMs(): number {
    if (!this.#isEverybodyHere()) return Number.POSITIVE_INFINITY;
    const lastMs = Math.max(...[...this.#waiting.values()].map(({ sinceMs }) => sinceMs));
    return lastMs + this.#options.lastCallMs;
  }

  #begin(): void {
    const members = [...this.#waiting.keys()].sort((a, b) => a - b).slice(0, this.#policy?.maxWorkers);
    this.#world = new RunningWorld(members, this.#options.tell);
    members.forEach((worker, rank) => {
      const call = this.#waiting.get(worker)?.call;
      this.#waiting.delete(worker);
      this.#places.set(worker, 'training');
      if (call) this.#options.tell(call, { outcome: 'world', rank, size: members.length });
    });
  }

  #stopWaiting(): void {
    for (const [worker, { call }] of this.#waiting) {
      this.#places.set(worker, 'finished');
      this.#options.tell(call, { outcome: 'stop' });
    }
    this.#waiting.clear();
  }

  #giveUp(worker: number): void {
    const call = this.#waiting.get(worker)?.call;
    const message = this.#isWorldFull()
      ? `rendezvous: ${this.#policy?.maxWorkers} workers train, and within ${this.#timeoutMs()} ms none left`
      : `rendezvous: ${this.#waiting.size} of at least ${this.#policy?.minWorkers} workers came within ${this.#timeoutMs()} ms`;
    this.#waiting.delete(worker);
    this.#places.set(worker, 'idle');
    if (call) this.#options.tell(call, { outcome: 'refused', code: 'TimedOut', message });
  }

  #expel(worker: number, nowMs: number): void {
    this.#forget(worker, `did not come within ${this.#timeoutMs()} ms`, nowMs);
    this.#options.expel(worker);
  }

  #forget(worker: number, how: string, nowMs: number): void {
    this.#leaveWorld(worker, how, nowMs);
    this.#waiting.delete(worker);
    this.#places.delete(worker);
    // The next job may have another policy.
    if (this.#places.size === 0) this.#policy = null;
  }

  #leaveWorld(worker: number, how: string, nowMs: number): void {
    const world = this.#worldOf(worker);
    // A worker in training is in this world: before another one begins, whoever does not come is expelled.
    if (world === null || world.hasEnded) return;
    world.end(`rank ${world.members.indexOf(worker)} of ${world.members.length} ${how}`);
    // Those who waited for a place begin to wait for the others only now, who cannot have known.
    for (const [spare, { call }] of this.#waiting) this.#waiting.set(spare, { call, sinceMs: nowMs });
  }
}
