/** Interfaces for the time, randomness and log that the engine uses. Tests pass their own. */

import { abortError } from './errors.ts';

export interface Clock {
  /** Wall clock, milliseconds since 1970. Informational: no decision depends on it. */
  nowMs(): number;
  /** Never goes back, unrelated to the wall clock. Deadlines are measured with it. */
  monotonicMs(): number;
  /** Resolves after `ms`; rejects with `Aborted` as soon as the signal fires. */
  sleep(ms: number, signal?: AbortSignal, options?: SleepOptions): Promise<void>;
}

export interface SleepOptions {
  /** True: the sleep does not keep the process alive. Default false. */
  isBackground?: boolean | undefined;
}

export interface Random {
  /** Lower-case hex digits from a source that is random enough for names that must never repeat. */
  hex(digits: number): string;
  /** Uniform in [0, 1). */
  fraction(): number;
}

export interface Logger {
  /** `details` holds no secrets. An error it throws is ignored. */
  log(level: 'debug' | 'info' | 'warn', message: string, details?: Record<string, unknown>): void;
}

/** Identifies the writing process, for people who look for a lost process. */
export interface ProcessName {
  readonly host: string;
  readonly pid: number;
}

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  sleep: (ms, signal, options) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(abortError(signal));
        return;
      }
      const stop = () => {
        clearTimeout(timer);
        if (signal) reject(abortError(signal));
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener('abort', stop);
        resolve();
      }, ms);
      if (options?.isBackground) timer.unref();
      signal?.addEventListener('abort', stop, { once: true });
    }),
};

export const systemRandom: Random = {
  hex(digits) {
    const bytes = crypto.getRandomValues(new Uint8Array(Math.ceil(digits / 2)));
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0'))
      .join('')
      .slice(0, digits);
  },
  fraction: () => Math.random(),
};

export const silentLogger: Logger = { log: () => undefined };

/**
 * The same logger, but its errors are ignored: a commit must not be reported as failed because a
 * log is full.
 */
export function safeLogger(logger: Logger): Logger {
  return {
    log(level, message, details) {
      try {
        logger.log(level, message, details);
      } catch {
        // A logger that fails has no place to report its error.
      }
    },
  };
}
