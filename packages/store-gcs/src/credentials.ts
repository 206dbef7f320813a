/**
 * Tokens of the default credentials: `GOOGLE_APPLICATION_CREDENTIALS`, gcloud's file, a workload's identity, the metadata server. The
 * library that finds them is loaded when the first token is needed.
 */

import { LibraryFailure, LOGIN_ADVICE } from '@holdfast/cloud-http';
import { unlessAborted } from '@holdfast/core/contract';
import { CredentialsError } from './errors.ts';

/** Lets one read, write and delete objects, and read what a bucket says of itself. */
const SCOPE = 'https://www.googleapis.com/auth/devstorage.read_write';
/** A token is fetched anew when it has so long left. */
const REFRESH_MS = 5 * 60_000;
/** Until then an old token is better than none. */
const LAST_USE_MS = 10_000;
/** Not more often: a token may have less than `REFRESH_MS` from the start, and who gives them may be away for a while. */
const REFRESH_PAUSE_MS = 10_000;
/** Of one request of the library, and of all that it sends for one token. */
const REQUEST_TIMEOUT_MS = 10_000;
const FETCH_TIMEOUT_MS = 30_000;

export interface Token {
  readonly value: string;
  /** Absent: it does not say. */
  readonly expiresAtMs?: number | undefined;
}

export interface CredentialsOptions {
  readonly fetchToken?: (() => Promise<Token>) | undefined;
  readonly now?: (() => number) | undefined;
}

export class Credentials {
  readonly #fetchToken: () => Promise<Token>;
  readonly #now: () => number;
  #token: Token | undefined;
  #refreshAtMs = 0;
  #pending: Promise<Token> | undefined;

  constructor({ fetchToken = fetchDefaultToken, now = Date.now }: CredentialsOptions = {}) {
    this.#fetchToken = fetchToken;
    this.#now = now;
  }

  /** A token to send. `CredentialsError` if there is none to be had. */
  async token(signal?: AbortSignal | undefined): Promise<string> {
    const token = this.#token;
    const nowMs = this.#now();
    if (token !== undefined && nowMs < this.#refreshAtMs) return token.value;
    const isUsable = token !== undefined && nowMs < (token.expiresAtMs ?? nowMs + 1) - LAST_USE_MS;
    this.#pending ??= this.#refresh();
    try {
      return (await unlessAborted(this.#pending, signal)).value;
    } catch (error) {
      if (isUsable && error instanceof CredentialsError) return token.value;
      throw error;
    }
  }

  /** The store did not take it: the next `token` is a new one. */
  forget(value: string): void {
    if (this.#token?.value === value) this.#token = undefined;
  }

  async #refresh(): Promise<Token> {
    try {
      const token = await withinTime(this.#fetchToken());
      this.#token = token;
      this.#refreshAtMs = Math.max(
        (token.expiresAtMs ?? Number.POSITIVE_INFINITY) - REFRESH_MS,
        this.#now() + REFRESH_PAUSE_MS,
      );
      return token;
    } catch (error) {
      this.#refreshAtMs = this.#now() + REFRESH_PAUSE_MS;
      throw error instanceof CredentialsError ? error : credentialsError(error);
    } finally {
      this.#pending = undefined;
    }
  }
}

/** A new client of the library for each token: one that was refused is not to come back from its memory. */
async function fetchDefaultToken(): Promise<Token> {
  const { GoogleAuth } = await import('google-auth-library');
  const auth = new GoogleAuth({
    scopes: SCOPE,
    // No project is needed, and finding one out may start gcloud.
    projectId: 'unused',
    clientOptions: { transporterOptions: { timeout: REQUEST_TIMEOUT_MS } },
  });
  const client = await auth.getClient();
  const { token } = await client.getAccessToken();
  if (typeof token !== 'string' || token === '') throw new Error('the credentials give no token');
  return { value: token, expiresAtMs: client.credentials.expiry_date ?? undefined };
}

async function withinTime<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new CredentialsError('Unavailable', `no token came within ${FETCH_TIMEOUT_MS / 1000} s`));
    }, FETCH_TIMEOUT_MS);
    timer.unref();
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The library's own errors hold requests with secrets in them and quote what was read, so none of them is kept as a cause. */
export function credentialsError(error: unknown): CredentialsError {
  const failure = new LibraryFailure(error);
  const { kind, status, isTemporary } = failure;
  if (kind === 'SyntaxError')
    return new CredentialsError('InvalidConfig', 'the credentials cannot be used: their file is no JSON');
  if (error instanceof Error && /could not load the default credentials/i.test(error.message)) {
    const advice =
      'run `gcloud auth application-default login`, set GOOGLE_APPLICATION_CREDENTIALS, or give the machine a service account';
    return new CredentialsError('Denied', `no credentials were found; ${advice}`);
  }
  const told = failure.message;
  if (status === 407)
    return new CredentialsError(
      'Denied',
      `no token can be had: the proxy wants credentials (${told}); ${LOGIN_ADVICE}`,
    );
  if (isTemporary) return new CredentialsError('Unavailable', `no token can be had at present (${told})`);
  if (status !== undefined) {
    const advice = 'they may be revoked or expired: log in again, or use another key';
    return new CredentialsError('Denied', `the credentials were refused (${told}); ${advice}`);
  }
  const advice = 'look at the file of GOOGLE_APPLICATION_CREDENTIALS, or log in again with gcloud';
  return new CredentialsError('InvalidConfig', `the credentials cannot be used (${told}); ${advice}`);
}
