/**
 * A writer in a separate process. A test tells it what to save and stops it at any call to the
 * store.
 */

import { type ChildProcess, fork } from 'node:child_process';
import { COMPILE_CACHE } from '../e2e/holdfast-process.ts';
import { packedProgram } from '../e2e/packed-command.ts';
import { untilFrozen } from '../servers/freeze.ts';
import type { Answer, SaveOrder, WriterMessage, WriterOrder } from './writer-messages.ts';

const SCRIPT = packedProgram('test/crash/writer-process.ts');

/** A save in progress. If the process ends first, its results are `undefined`. */
export interface Saving {
  /** Resolves when the writer has joined. Any newer attempt fences it from then on. */
  readonly joined: Promise<unknown>;
  /** Resolves when its files are delivered, even if the save fails later. */
  readonly delivered: Promise<unknown>;
  readonly told: Promise<Answer | undefined>;
  /** Releases a held save. */
  letGo(): void;
}

interface Waiting {
  readonly joined: PromiseWithResolvers<void>;
  readonly delivered: PromiseWithResolvers<void>;
  readonly told: PromiseWithResolvers<Answer | undefined>;
}

export class Writer {
  /** The signal that ended the process, or `null` if it exited by itself. */
  readonly ended: Promise<NodeJS.Signals | null>;
  readonly #child: ChildProcess;
  readonly #savings = new Map<number, Waiting>();
  readonly #ready = Promise.withResolvers<void>();
  #count = 0;

  /** `env`: variables that it needs to reach the store. */
  constructor(env: Readonly<Record<string, string>>) {
    this.#child = fork(SCRIPT, {
      execArgv: [],
      env: { PATH: process.env['PATH'], NODE_COMPILE_CACHE: COMPILE_CACHE, ...env },
      // Transfers bigints and regular expressions without conversion.
      serialization: 'advanced',
    });
    this.#child.on('message', (message) => this.#hear(message as WriterMessage));
    this.ended = new Promise((resolve, reject) => {
      this.#child.once('error', reject);
      this.#child.once('exit', (_, signal) => {
        this.#ready.resolve();
        for (const waiting of this.#savings.values()) settle(waiting, undefined);
        resolve(signal);
      });
    });
  }

  save(order: SaveOrder): Saving {
    const id = this.#count++;
    const waiting: Waiting = {
      joined: Promise.withResolvers(),
      delivered: Promise.withResolvers(),
      told: Promise.withResolvers(),
    };
    this.#savings.set(id, waiting);
    void this.#ready.promise.then(() => this.#send({ type: 'save', id, order }));
    const { joined, delivered, told } = waiting;
    return {
      joined: joined.promise,
      delivered: delivered.promise,
      told: told.promise,
      letGo: () => this.#send({ type: 'go', id }),
    };
  }

  /** Resolves when SIGSTOP has stopped the process. */
  async stopped(): Promise<void> {
    await untilFrozen(this.#child.pid ?? Number.NaN);
  }

  goOn(): void {
    this.#child.kill('SIGCONT');
  }

  /** Safe to repeat. */
  async end(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.ended;
  }

  #hear(message: WriterMessage): void {
    if (message.type === 'ready') {
      this.#ready.resolve();
      return;
    }
    const waiting = this.#savings.get(message.id);
    if (!waiting) return;
    switch (message.type) {
      case 'joined':
      case 'delivered':
        waiting[message.type].resolve();
        break;
      case 'told':
        settle(waiting, message.answer);
        break;
      case 'failed':
        waiting.told.reject(new Error(`a writer failed: ${message.message}`));
        break;
    }
  }

  #send(order: WriterOrder): void {
    // The message may fail if the process has ended.
    this.#child.send(order, () => undefined);
  }
}

function settle({ joined, delivered, told }: Waiting, answer: Answer | undefined): void {
  joined.resolve();
  delivered.resolve();
  told.resolve(answer);
}
