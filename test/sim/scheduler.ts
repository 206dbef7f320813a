/**
 * One seed plays one schedule. Every call to the store waits here until it is picked at random.
 * Time passes only when the schedule says so.
 */

import type { Clock } from '@holdfast/core';
import { abortError } from '@holdfast/core/contract';
import { type LateEffects, ManualClock, type SeededRandom } from '@holdfast/testkit';
import type { Trace } from './trace.ts';

/** A process, as the scheduler sees it. */
export interface Scheduled {
  readonly name: string;
  /** How often its calls are picked, relative to those of other processes. */
  readonly pace: number;
  readonly isDead: boolean;
}

export interface ParkedCall<T> {
  readonly process: Scheduled;
  /** Operation and key, for the trace. */
  readonly what: string;
  readonly signal?: AbortSignal | undefined;
  /** Executes the request. */
  readonly send: () => Promise<T>;
  /**
   * The same without the caller's signal and buffers, in case the caller leaves before its turn.
   * Absent: the call only reads.
   */
  readonly sendAlone?: (() => Promise<unknown>) | undefined;
}

interface Parked {
  readonly process: Scheduled;
  readonly what: string;
  readonly notBefore: number;
  run: () => Promise<unknown>;
  isLeft: boolean;
}

export interface Pressure {
  /** Chance per step that time advances although calls are in progress. */
  readonly time: number;
  /** Chance per step that a late request lands. */
  readonly landing: number;
}

/**
 * A longer schedule is treated as endless. Most have 130 steps, the longest of some thousands about
 * 1,000.
 */
const STEPS_MAX = 8000;

export class Scheduler {
  readonly clock = new ManualClock();
  readonly #random: SeededRandom;
  readonly #trace: Trace;
  readonly #pressure: Pressure;
  readonly #lateEffects: LateEffects;
  readonly #parked: Parked[] = [];
  readonly #dues = new Set<{ readonly dueMs: number }>();
  #steps = 0;
  #isCalm = false;

  constructor(random: SeededRandom, trace: Trace, pressure: Pressure, lateEffects: LateEffects) {
    this.#random = random;
    this.#trace = trace;
    this.#pressure = pressure;
    this.#lateEffects = lateEffects;
  }

  get steps(): number {
    return this.#steps;
  }

  /** The clock of one process. Once the process is dead, its timers never fire. */
  clockOf(process: Scheduled): Clock {
    const { clock } = this;
    return {
      nowMs: () => clock.nowMs(),
      monotonicMs: () => clock.monotonicMs(),
      sleep: async (ms, signal) => {
        const due = { dueMs: clock.monotonicMs() + ms };
        this.#dues.add(due);
        try {
          await clock.sleep(ms, signal);
        } finally {
          this.#dues.delete(due);
        }
        if (process.isDead) await new Promise(() => undefined);
      },
    };
  }

  /**
   * Resolves when the call is picked. It is not picked before step `notBefore`, unless there is
   * nothing else to do.
   */
  turn(process: Scheduled, what: string, notBefore = 0): Promise<void> {
    return new Promise((resolve) => {
      this.#parked.push({ process, what, notBefore, isLeft: false, run: async () => resolve() });
    });
  }

  /**
   * Waits for its turn, then executes the call. Rejects at once when the signal fires. The request
   * may still land.
   */
  call<T>({ process, what, signal, send, sendAlone }: ParkedCall<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const leave = () => {
        parked.isLeft = true;
        if (sendAlone) parked.run = sendAlone;
        else this.#unpark(parked);
        if (signal) reject(abortError(signal));
      };
      const run = async () => {
        signal?.removeEventListener('abort', leave);
        const call = send();
        call.then(resolve, reject);
        await call;
      };
      const parked: Parked = { process, what, notBefore: 0, isLeft: false, run };
      this.#parked.push(parked);
      if (signal?.aborted) leave();
      else signal?.addEventListener('abort', leave, { once: true });
    });
  }

  /** The call may have been removed with its caller before. */
  #unpark(parked: Parked): void {
    const index = this.#parked.indexOf(parked);
    if (index >= 0) this.#parked.splice(index, 1);
  }

  /** Runs until nothing is left to do, or until `isOver`. */
  async run(isOver: () => boolean): Promise<void> {
    await eventLoopTurn();
    while (!isOver() && (await this.#step())) {
      if (this.#steps > STEPS_MAX) throw new Error(`I11: it does not end within ${STEPS_MAX} steps`);
    }
  }

  /** From now on, time advances only when every process waits for it. */
  calmDown(): void {
    this.#isCalm = true;
  }

  /** Lets all late requests land. */
  async landAll(): Promise<void> {
    while (this.#lateEffects.count > 0) this.#release(0);
    await this.run(() => false);
  }

  /**
   * A late request joins the calls that wait for their turn. The bucket keeps any error about a
   * broken contract.
   */
  #release(index: number): void {
    this.#lateEffects.releaseOne(index).catch(() => undefined);
  }

  async #step(): Promise<boolean> {
    this.#steps++;
    if (this.#lateEffects.count > 0 && this.#random.fraction() < this.#pressure.landing) {
      this.#release(this.#random.integer(this.#lateEffects.count));
    }
    const isTimeDue = !this.#isCalm && this.#dues.size > 0 && this.#random.fraction() < this.#pressure.time;
    if (!isTimeDue && this.#parked.length > 0) await this.#pickOne();
    else if (this.#dues.size > 0) await this.#advance();
    else if (this.#parked.length > 0) await this.#pickOne();
    else return false;
    return true;
  }

  async #pickOne(): Promise<void> {
    const picked = this.#pick();
    this.#unpark(picked);
    const { process, what } = picked;
    const nobodyWaits = picked.isLeft || process.isDead;
    if (nobodyWaits && this.#random.fraction() < 0.5) {
      this.#trace.add(process.name, `${what} is lost with its caller`);
    } else {
      const outcome = await picked.run().then(
        () => 'ok',
        (error: { code?: string; message: string }) => error.code ?? error.message,
      );
      this.#trace.add(process.name, `${what}: ${outcome}${nobodyWaits ? ' (nobody waits)' : ''}`);
    }
    await eventLoopTurn();
  }

  #pick(): Parked {
    const ready = this.#parked.filter((parked) => parked.notBefore <= this.#steps);
    if (ready.length === 0) return this.#parked[0] as Parked;
    const total = ready.reduce((sum, { process }) => sum + process.pace, 0);
    let draw = this.#random.fraction() * total;
    for (const parked of ready) {
      draw -= parked.process.pace;
      if (draw < 0) return parked;
    }
    return ready[0] as Parked;
  }

  /** Advances time to the next timer that is due. */
  async #advance(): Promise<void> {
    let dueMs = Number.POSITIVE_INFINITY;
    for (const due of this.#dues) dueMs = Math.min(dueMs, due.dueMs);
    await this.clock.advance(Math.max(1, Math.ceil(dueMs - this.clock.monotonicMs())));
    await eventLoopTurn();
  }
}

/** Runs all code that waits only for promises. */
function eventLoopTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
