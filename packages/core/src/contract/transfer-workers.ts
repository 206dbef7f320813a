/**
 * Threads that hash, send and receive bytes in memory that they share with this thread. A table of
 * the process leads from shared memory to its threads. So a store finds the threads by the bytes
 * that a caller passes to it.
 */

/** One end of a channel to a service in a worker; a `MessagePort` of Node. */
export interface WorkerPort {
  postMessage(message: unknown): void;
  /** `message`, with what was posted; `close`: the other end is gone. */
  on(event: string, listener: (message: never) => void): unknown;
  ref(): void;
  unref(): void;
  close(): void;
}

export interface TransferWorkers {
  /** At least 1. */
  readonly count: number;
  /**
   * Opens a channel to worker `index` (from 0). The worker imports the module `service` and calls
   * its `serve(port, options)`. `options` is copied.
   */
  connect(index: number, service: URL, options?: unknown): WorkerPort;
}

/** A registered symbol: every copy of the package finds the same map. */
const WORKERS = Symbol.for('holdfast.transfer-workers');

const globals = globalThis as { [WORKERS]?: WeakMap<ArrayBufferLike, TransferWorkers> };
globals[WORKERS] ??= new WeakMap();
const byMemory = globals[WORKERS];

/**
 * Lets `workers` do work on this memory from now on. `undefined`: no threads may do it any more.
 */
export function setWorkersOf(memory: ArrayBufferLike, workers: TransferWorkers | undefined): void {
  if (workers === undefined) byMemory.delete(memory);
  else byMemory.set(memory, workers);
}

/** The threads that share the memory of these bytes; `undefined`: there are none. */
export function workersOf(bytes: Uint8Array | undefined): TransferWorkers | undefined {
  return bytes && byMemory.get(bytes.buffer);
}
