/** The ranks of a job, as processes of the Python client. Their lines become the history. */

import { fileURLToPath } from 'node:url';
import type { Machine } from './machine.ts';
import type { RoundPlan } from './plan.ts';
import { WatchedProcess } from './watched-process.ts';

const SCRIPT = fileURLToPath(new URL('./rank.py', import.meta.url));
const CLIENT = fileURLToPath(new URL('../../../python', import.meta.url));

/** Until a call of a rank ends without an answer. */
export const TIMEOUT_MS = 3000;

/** The argument of `rank.py`. */
interface RankOrders {
  readonly socket: string;
  readonly uri: string;
  readonly attempt: string;
  readonly rank: number;
  readonly count: number;
  /** Names this life in all bytes that it saves. */
  readonly mark: number;
  readonly versions: number;
  readonly bytes: number;
  readonly timeoutMs: number;
  readonly saveTimeoutMs: number | null;
  readonly isWaiting: boolean;
  readonly isInTwoSteps: boolean;
  readonly isClosing: boolean;
}

/** A process of a rank. */
export interface Life {
  readonly rank: number;
  readonly attempt: number;
  readonly mark: number;
  readonly process: WatchedProcess;
}

/** A line of a rank. `life` is its index in `Job.lives`. */
export interface Told {
  readonly life: number;
  readonly event: string;
  readonly atMs: number;
  readonly version?: number;
  /** In all words of the bytes: the mark of the life, and a moment of its training. */
  readonly number?: number;
  readonly numbers?: readonly number[];
  readonly name?: string;
  readonly code?: string;
  readonly message?: string;
  readonly limitMs?: number;
}

export const MOMENTS_MAX = 2 ** 24;

export class Job {
  readonly uri: string;
  readonly lives: Life[] = [];
  readonly told: Told[] = [];
  attempt = 0;
  readonly #machine: Machine;
  readonly #plan: RoundPlan;
  readonly #python: string;
  readonly #onTold: (told: Told) => void;
  readonly #onComplaint: (line: string) => void;

  constructor({
    machine,
    plan,
    uri,
    python,
    onTold,
    onComplaint,
  }: {
    readonly machine: Machine;
    readonly plan: RoundPlan;
    readonly uri: string;
    readonly python: string;
    readonly onTold: (told: Told) => void;
    /** What a rank prints besides, such as a traceback. */
    readonly onComplaint: (line: string) => void;
  }) {
    this.#machine = machine;
    this.#plan = plan;
    this.#python = python;
    this.#onTold = onTold;
    this.#onComplaint = onComplaint;
    this.uri = uri;
  }

  get running(): readonly Life[] {
    return this.lives.filter(({ process }) => process.isRunning);
  }

  /** The ranks of the current attempt whose newest life has ended, in spite of more to do. */
  get missingRanks(): readonly number[] {
    const ranks = Array.from({ length: this.#plan.rankCount }, (_, rank) => rank);
    return ranks.filter(
      (rank) => !this.running.some((life) => life.rank === rank && life.attempt === this.attempt),
    );
  }

  startAll(): void {
    this.attempt += 1;
    for (let rank = 0; rank < this.#plan.rankCount; rank += 1) this.start(rank);
  }

  start(rank: number): void {
    const { rankCount: count, versions, bytes, saveTimeoutMs } = this.#plan;
    const { isWaiting, isInTwoSteps, isClosing } = this.#plan;
    const life = this.lives.length;
    const mark = life + 1;
    const orders: RankOrders = {
      ...{ socket: this.#machine.socket, uri: this.uri, attempt: `attempt-${this.attempt}`, rank, count },
      ...{ mark, versions, bytes, saveTimeoutMs, timeoutMs: TIMEOUT_MS },
      ...{ isWaiting, isInTwoSteps, isClosing },
    };
    const process = new WatchedProcess([this.#python, '-B', SCRIPT, JSON.stringify(orders)], {
      env: { PYTHONPATH: CLIENT, HOLDFAST_AGENT: '', HOLDFAST_ATTEMPT: '' },
      onLine: (line, from) => {
        if (from === 'stderr') this.#onComplaint(`rank ${rank} (life ${life}): ${line}`);
        else this.#note({ life, ...JSON.parse(line) });
      },
    });
    this.lives.push({ rank, attempt: this.attempt, mark, process });
  }

  #note(told: Told): void {
    this.told.push(told);
    this.#onTold(told);
  }
}
