/**
 * Limits the requests that are on a connection at the same time. Further requests wait in order of
 * arrival.
 */

import { abortError, requestWatchOf } from '@holdfast/core/contract';
import { DirectHttpError } from '@holdfast/direct-http';

interface Waiting {
  readonly begin: () => void;
  readonly refuse: (error: unknown) => void;
}

export class ConnectionQueue {
  #free: number;
  readonly #waiting = new Set<Waiting>();

  constructor(connectionsMax: number) {
    this.#free = connectionsMax;
  }

  /** Runs `send` when there is room for it. Throws `Aborted` if the signal fires before that. */
  async run<T>(signal: AbortSignal | undefined, send: () => Promise<T>): Promise<T> {
    const watch = requestWatchOf(signal);
    if (this.#free > 0) this.#free -= 1;
    else {
      watch?.changed(1, 0);
      try {
        await this.#turn(signal);
      } finally {
        watch?.changed(-1, 0);
      }
    }
    watch?.changed(0, 1);
    try {
      return await send();
    } finally {
      watch?.changed(0, -1);
      this.#leave();
    }
  }

  /** Rejects all waiting requests. */
  close(): void {
    for (const { refuse } of this.#waiting)
      refuse(new DirectHttpError('CLIENT_CLOSED', 'the client was closed', { phase: 'queue' }));
    this.#waiting.clear();
  }

  #turn(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        this.#waiting.delete(waiting);
        reject(abortError(signal as AbortSignal));
      };
      const settle = () => signal?.removeEventListener('abort', onAbort);
      const waiting: Waiting = {
        begin: () => {
          settle();
          resolve();
        },
        refuse: (error) => {
          settle();
          reject(error);
        },
      };
      if (signal?.aborted) return onAbort();
      signal?.addEventListener('abort', onAbort, { once: true });
      this.#waiting.add(waiting);
    });
  }

  /** Lets the request that has waited longest begin. */
  #leave(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#free += 1;
      return;
    }
    this.#waiting.delete(next);
    next.begin();
  }
}
