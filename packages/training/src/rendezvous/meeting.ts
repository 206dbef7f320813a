/**
 * Decides which workers meet, and when; the server handles time and bytes. A worker is identified
 * by the number of its connection, so earlier workers have lower numbers. The ranks of a world
 * follow these numbers: the worker connected longest is rank 0, and workers that stay keep their
 * order.
 */

import type { Call, Tell } from './answers.ts';
import type { Policy } from './policy.ts';
import { type Contribution, RunningWorld } from './running-world.ts';

export interface MeetingOptions {
  /**
   * How long to wait for further workers once enough are present, counted from the last arrival.
   */
  readonly lastCallMs: number;
  readonly tell: Tell;
  /**
   * Ends the connection of a worker that the others have waited for too long. `leave` is not called
   * for it.
   */
  readonly expel: (worker: number) => void;
}

/**
 * `idle`: connected, but not yet at a rendezvous. `training`: in a world, which may have ended.
 * `finished`: has no data left, or was told to stop.
 */
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

  /**
   * Admits a worker; the first one sets the policy. Returns why it was rejected, or `null` if it
   * was admitted.
   */
  enter(worker: number, policy: Policy): string | null {
    const present = this.#policy;
    for (const name of ['minWorkers', 'maxWorkers', 'timeoutMs'] as const) {
      if (present !== null && present[name] !== policy[name]) {
        return `${name} ${policy[name]}: the other workers have ${present[name]}, and all must have the same`;
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

  /**
   * Training is over: no worker joins any more. Workers that still train learn of it, as they
   * cannot gather without this worker.
   */
  finish(call: Call, nowMs: number): void {
    this.#isOver = true;
    this.#leaveWorld(call.worker, 'has no data left', nowMs);
    this.#places.set(call.worker, 'finished');
    this.#options.tell(call, { outcome: 'done' });
    this.tick(nowMs);
  }

  /** Removes a worker that is gone, whatever it was doing. */
  leave(worker: number, nowMs: number): void {
    this.#forget(worker, 'is gone', nowMs);
    this.tick(nowMs);
  }

  /** When to call `tick` if nothing else happens before; `Infinity`: never. */
  nextTickMs(): number {
    const worldMs = this.#world?.dueMs ?? Number.POSITIVE_INFINITY;
    return Math.min(worldMs, this.#roundDueMs(), this.#lastCallEndMs());
  }

  /** Does what is due now. Safe to repeat. */
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

  /** When the worker that has waited longest has waited for `timeoutMs`. */
  #roundDueMs(): number {
    return Math.min(...[...this.#waiting.values()].map(({ sinceMs }) => sinceMs + this.#timeoutMs()));
  }

  /** No waiting worker could be admitted; they wait in case another leaves. */
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

  /** Workers that the others wait for: connected, with data left, and not at the rendezvous. */
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
      ? `rendezvous: ${this.#policy?.maxWorkers} workers train, and none left within ${this.#timeoutMs()} ms`
      : `rendezvous: ${this.#waiting.size} of at least ${this.#policy?.minWorkers} workers arrived within ${this.#timeoutMs()} ms`;
    this.#waiting.delete(worker);
    this.#places.set(worker, 'idle');
    if (call) this.#options.tell(call, { outcome: 'refused', code: 'TimedOut', message });
  }

  #expel(worker: number, nowMs: number): void {
    this.#forget(worker, `did not arrive within ${this.#timeoutMs()} ms`, nowMs);
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
    // A worker that trains is in this world: before another one begins, every worker that does not
    // come is expelled.
    if (world === null || world.hasEnded) return;
    world.end(`rank ${world.members.indexOf(worker)} of ${world.members.length} ${how}`);
    // Workers that waited for room start their wait again here: the others could not have known
    // before that a new world begins.
    for (const [spare, { call }] of this.#waiting) this.#waiting.set(spare, { call, sinceMs: nowMs });
  }
}
