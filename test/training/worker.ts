/** The workers of a scenario, each in a separate process. */

import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { RendezvousServer } from '@holdfast/training';
import { COMPILE_CACHE } from '../e2e/holdfast-process.ts';
import type { Failed, Trained, TrainOrder, WorkerMessage, WorkerOrder } from './worker-messages.ts';

const SCRIPT = fileURLToPath(new URL('./worker-process.ts', import.meta.url));
export const WORKER_COUNT = 4;
/** Much longer than a step takes on a busy machine. No scenario waits for it. */
const TIMEOUT_MS = 60_000;
const LAST_CALL_MS = 20;

export interface Killed {
  readonly type: 'killed';
  readonly signal: NodeJS.Signals | null;
}

export type Outcome = Trained | Failed | Killed;

/** Differences from four workers that train to the end without checkpoints. */
export type OrderPart = Partial<Omit<TrainOrder, 'port'>>;

/** Two workers without a hook, and two with `others`. `all` applies to all. */
export function twoAndTwo(others: OrderPart, all: OrderPart = {}): OrderPart[] {
  return [all, all, { ...all, ...others }, { ...all, ...others }];
}

/** The samples of each worker, and its sum. */
export function countsOf(outcomes: readonly Outcome[]): unknown[] {
  return outcomes.map((outcome) =>
    outcome.type === 'trained' ? [outcome.samples.length, outcome.totalSum] : outcome,
  );
}

/** A process that trains on each order. */
class Worker {
  /** Resolves when the process has ended. */
  readonly ended: Promise<Killed>;
  readonly #child: ChildProcess;
  readonly #ready = Promise.withResolvers<void>();
  #connected = Promise.withResolvers<void>();
  #outcome = Promise.withResolvers<Outcome>();

  constructor() {
    this.#child = fork(SCRIPT, {
      execArgv: ['--conditions=holdfast-source', '--disable-warning=HoldfastTraining'],
      env: { PATH: process.env['PATH'], NODE_COMPILE_CACHE: COMPILE_CACHE },
    });
    this.#child.on('message', (message) => this.#hear(message as WorkerMessage));
    this.ended = new Promise((resolve, reject) => {
      this.#child.once('error', reject);
      this.#child.once('exit', (_, signal) => {
        const killed: Killed = { type: 'killed', signal };
        this.#ready.resolve();
        this.#connected.resolve();
        this.#outcome.resolve(killed);
        resolve(killed);
      });
    });
  }

  get isAlive(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Resolves when the worker is connected to the server. It trains after `begin`. */
  async connect(order: TrainOrder): Promise<void> {
    await this.#ready.promise;
    this.#connected = Promise.withResolvers();
    this.#outcome = Promise.withResolvers();
    this.#send({ type: 'train', order });
    await this.#connected.promise;
  }

  begin(): Promise<Outcome> {
    this.#send({ type: 'begin' });
    return this.#outcome.promise;
  }

  goOn(): void {
    this.#child.kill('SIGCONT');
  }

  /** Safe to call again. */
  async end(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.ended;
  }

  #hear(message: WorkerMessage): void {
    if (message.type === 'ready') this.#ready.resolve();
    else if (message.type === 'connected') this.#connected.resolve();
    else {
      // The worker may fail before it is connected.
      this.#connected.resolve();
      this.#outcome.resolve(message);
    }
  }

  #send(order: WorkerOrder): void {
    // A message to a process that has ended fails.
    this.#child.send(order, () => undefined);
  }
}

/**
 * Four workers that are reused, because starting one takes longer than a scenario. Killed workers
 * are replaced.
 */
export class Workers implements AsyncDisposable {
  #workers: Worker[] = [];

  /**
   * Trains with all workers, one order for each. Resolves to the outcome of each. The ranks of the
   * first world are in this order. It begins when all workers are connected. Workers that freeze
   * continue when all others have ended.
   */
  async train(parts: readonly OrderPart[]): Promise<Outcome[]> {
    await using server = await RendezvousServer.start({ lastCallMs: LAST_CALL_MS });
    this.#workers = parts.map((_, index) => {
      const present = this.#workers[index];
      return present?.isAlive ? present : new Worker();
    });
    for (const [index, part] of parts.entries()) {
      await this.#workers[index]?.connect({
        minWorkers: WORKER_COUNT,
        hook: 'none',
        state: 'plain',
        meetsOften: false,
        checkpoints: null,
        timeoutMs: TIMEOUT_MS,
        ...part,
        port: server.port,
      });
    }
    const outcomes = this.#workers.map((worker) => worker.begin());
    const isFrozen = (index: number) => parts[index]?.hook === 'freeze';
    await Promise.all(outcomes.filter((_, index) => !isFrozen(index)));
    for (const [index, worker] of this.#workers.entries()) if (isFrozen(index)) worker.goOn();
    // Awaited here, because the server ends with this function.
    return await Promise.all(outcomes);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.end()));
  }
}
