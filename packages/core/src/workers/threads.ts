/**
 * The transfer workers of this process. All managers share them: each uses as many as its setting
 * says, and the last to close ends them. They keep no process alive.
 */

import { availableParallelism } from 'node:os';
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads';
import type { TransferWorkers, WorkerPort } from '../contract/transfer-workers.ts';
import { dropUnused, keepForNext } from './memories.ts';
import { THREAD_FILE, THREAD_FLAGS } from './worker-files.ts';

export interface OpenWorkers {
  readonly workers: TransferWorkers;
  /** Call it once. */
  close(): void;
}

interface Thread {
  readonly worker: Worker;
  /** Rejects if it cannot be started. */
  readonly ready: Promise<void>;
  hasEnded: boolean;
}

const COUNT_MAX = 8;
/** Most machines take a tenth of a second. Without threads, this one does their work. */
const START_TIMEOUT_MS = 30_000;

/**
 * One for each processor but one, which the main thread needs. On two processors there is no
 * worker: Node's thread pool and the system keep the second one busy, and a worker only adds work
 * (measured).
 */
export function preferredWorkerCount(processorCount = availableParallelism()): number {
  return processorCount < 3 ? 0 : Math.min(COUNT_MAX, processorCount - 1);
}

const threads: Thread[] = [];
let userCount = 0;

/** By count, so that managers with the same setting share connections too. */
const known = new Map<number, TransferWorkers>();

/** Starts `count` threads unless they run already. Rejects if one of them cannot be started. */
export async function openWorkers(count: number): Promise<OpenWorkers> {
  userCount += 1;
  try {
    await Promise.all(Array.from({ length: count }, (_, index) => threadAt(index).ready));
  } catch (error) {
    close();
    throw error;
  }
  const workers = known.get(count) ?? { count, connect };
  known.set(count, workers);
  return { workers, close };
}

function connect(index: number, service: URL, options?: unknown): WorkerPort {
  const { port1, port2 } = new MessageChannel();
  const thread = threadAt(index);
  thread.worker.postMessage({ service: service.href, options, port: port2 }, [port2]);
  return new ThreadPort(port1, thread);
}

/**
 * A channel closes before its thread has ended, and until then the thread may still send from the
 * memory of its calls, or receive into it. So `close` is told when the thread has ended; a thread
 * that closes a channel by itself is ended.
 */
class ThreadPort implements WorkerPort {
  readonly #port: WorkerPort;
  readonly #thread: Thread;
  #isClosed = false;

  constructor(port: MessagePort, thread: Thread) {
    this.#port = port as unknown as WorkerPort; // @types/node has no listener of both events
    this.#thread = thread;
  }

  postMessage(message: unknown): void {
    this.#port.postMessage(message);
  }

  on(event: string, listener: (message: never) => void): void {
    const afterThread = (message: never) => void this.#ended().then(() => listener(message));
    this.#port.on(event, event === 'close' ? afterThread : listener);
  }

  ref(): void {
    this.#port.ref();
  }

  unref(): void {
    this.#port.unref();
  }

  close(): void {
    this.#isClosed = true;
    this.#port.close();
  }

  async #ended(): Promise<void> {
    const { worker, hasEnded } = this.#thread;
    if (this.#isClosed || hasEnded) return;
    worker.ref(); // The calls on the channel wait for it.
    await worker.terminate();
  }
}

/** A thread that has ended is replaced. */
function threadAt(index: number): Thread {
  const running = threads[index];
  if (running !== undefined && !running.hasEnded) return running;
  const started = startThread();
  threads[index] = started;
  return started;
}

function startThread(): Thread {
  if (THREAD_FILE === null) throw new Error('in a bundle the modules of threads are missing');
  const worker = new Worker(THREAD_FILE, { execArgv: [...THREAD_FLAGS], name: 'holdfast transfer worker' });
  const ready = new Promise<void>((resolve, reject) => {
    const tooSlow = () => reject(new Error(`the thread was not ready after ${START_TIMEOUT_MS} ms`));
    const timer = setTimeout(tooSlow, START_TIMEOUT_MS).unref();
    worker.once('message', () => {
      clearTimeout(timer);
      resolve();
    });
    worker.once('error', reject);
    worker.once('exit', () => reject(new Error('the thread ended before it could work')));
  }).finally(() => worker.unref());
  const thread: Thread = { worker, ready, hasEnded: false };
  ready.catch(() => undefined); // its user reports it
  // Without a listener an error in the thread would end the process. Its calls fail by themselves.
  worker.on('error', () => undefined);
  worker.once('exit', () => {
    thread.hasEnded = true;
  });
  return thread;
}

/** Shared memory is no longer used by the pool that took it, nor by any call. */
export function giveBack(memory: ArrayBufferLike): void {
  if (userCount > 0) keepForNext(memory);
}

function close(): void {
  userCount -= 1;
  if (userCount > 0) return;
  for (const { worker } of threads.splice(0)) void worker.terminate();
  dropUnused();
}
