/**
 * Credentials that expire. One fetch serves all waiting callers. Credentials are replaced in time,
 * and used until they expire if no others are available.
 */

import { unlessAborted } from '@holdfast/core/contract';
import { CredentialsError } from './credentials-error.ts';

/**
 * Credentials are replaced when this much time is left: even the longest request then ends before
 * they expire.
 */
const RENEWED_MS_BEFORE_END = 5 * 60_000;
/** Until this long before their end, old credentials are better than none. */
const LAST_USE_MS = 10_000;
/**
 * Least time between fetches: credentials may last less than five minutes from the start, and their
 * source may be unavailable for a while.
 */
const PAUSE_MS = 10_000;
/**
 * Limit of one fetch. Libraries have timeouts for each request, but none for all that they send.
 */
const TIMEOUT_MS = 20_000;

export interface Expiring<T> {
  readonly value: T;
  /** Absent: unknown. */
  readonly expiresAtMs?: number | undefined;
}

export interface RenewedOptions<T> {
  /**
   * `signal`: fires when the fetch is late, and must stop it if possible. The next call waits for a
   * fetch that cannot be stopped.
   */
  readonly fetch: (signal: AbortSignal) => Promise<Expiring<T>>;
  /** Follows "no credentials arrived within 20 s from". Called if the fetch is late. */
  readonly source: () => string;
  /** Classifies a failure. `wasGiven`: credentials were available before. */
  readonly failure: (error: unknown, wasGiven: boolean) => CredentialsError | Promise<CredentialsError>;
  readonly now?: (() => number) | undefined;
}

export class Renewed<T> {
  readonly #options: RenewedOptions<T>;
  readonly #now: () => number;
  #last: Expiring<T> | undefined;
  #renewAtMs = 0;
  #pending: Promise<T> | undefined;
  /** The pending fetch. It stays here when it is late, so that there is never a second one. */
  #work: { readonly given: Promise<T>; readonly controller: AbortController } | undefined;

  constructor(options: RenewedOptions<T>) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  /** Credentials to send with. `CredentialsError` if none are available. */
  async current(signal?: AbortSignal | undefined): Promise<T> {
    const last = this.#last;
    const nowMs = this.#now();
    const usableUntilMs = (last?.expiresAtMs ?? Number.POSITIVE_INFINITY) - LAST_USE_MS;
    if (last !== undefined && nowMs < Math.min(this.#renewAtMs, usableUntilMs)) return last.value;
    try {
      return await this.#shared(signal);
    } catch (error) {
      if (last !== undefined && nowMs < usableUntilMs && error instanceof CredentialsError) return last.value;
      throw error;
    }
  }

  /**
   * Other credentials, after the store rejected `refused`; the same ones if no others are
   * available.
   */
  async renew(refused: T, signal?: AbortSignal | undefined): Promise<T> {
    if (this.#last !== undefined && this.#last.value !== refused) return this.current(signal);
    return this.#shared(signal);
  }

  #shared(signal: AbortSignal | undefined): Promise<T> {
    this.#pending ??= this.#fetch().finally(() => {
      this.#pending = undefined;
    });
    return unlessAborted(this.#pending, signal);
  }

  async #fetch(): Promise<T> {
    try {
      return await this.#inTime();
    } catch (error) {
      this.#renewAtMs = this.#now() + PAUSE_MS;
      throw error instanceof CredentialsError
        ? error
        : await this.#options.failure(error, this.#last !== undefined);
    }
  }

  async #inTime(): Promise<T> {
    const { given, controller } = this.#begun();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        const what = `no credentials arrived within ${TIMEOUT_MS / 1000} s from ${this.#options.source()}`;
        reject(new CredentialsError('Unavailable', what));
        controller.abort();
      }, TIMEOUT_MS);
    });
    try {
      return await Promise.race([given, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  #begun(): { readonly given: Promise<T>; readonly controller: AbortController } {
    if (this.#work !== undefined) return this.#work;
    const controller = new AbortController();
    const given = this.#options
      .fetch(controller.signal)
      .then((expiring) => this.#take(expiring))
      .finally(() => {
        this.#work = undefined;
      });
    given.catch(() => undefined); // No call waits for a late failure.
    this.#work = { given, controller };
    return this.#work;
  }

  #take(given: Expiring<T>): T {
    this.#last = given;
    const renewAtMs = (given.expiresAtMs ?? Number.POSITIVE_INFINITY) - RENEWED_MS_BEFORE_END;
    this.#renewAtMs = Math.max(renewAtMs, this.#now() + PAUSE_MS);
    return given.value;
  }
}
