/**
 * The transfer workers of this process. All managers share them: each uses as many as its setting
 * says, and the last to close ends them. They keep no process alive.
 */

import { availableParallelism } from 'node:os';
import { MessageChannel, Worker } from 'node:worker_threads';
import type { TransferWorkers, WorkerPort } from '../contract/transfer-workers.ts';
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

/**
 * One for each processor but one, which the main thread needs. On two processors there is no
 * worker: Node's thread pool and the system keep the second one busy, and a worker only adds work
 * (measured).
 */
export function preferredWorkerCount(): number {
  const processorCount = availableParallelism();
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
  threadAt(index).worker.postMessage({ service: service.href, options, port: port2 }, [port2]);
  return port1 as unknown as WorkerPort; // @types/node has no listener of both events
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
  const worker = new Worker(THREAD_FILE, { execArgv: [...THREAD_FLAGS], name: 'holdfast transfer worker' });
  const ready = new Promise<void>((resolve, reject) => {
    worker.once('message', () => resolve());
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

function close(): void {
  userCount -= 1;
  if (userCount > 0) return;
  for (const { worker } of threads.splice(0)) void worker.terminate();
}
