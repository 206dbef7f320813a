/** Tokens of Microsoft Entra ID, from wherever the machine has an identity. */

import type { AccessToken, TokenCredential } from '@azure/identity';
import { LibraryFailure, LOGIN_ADVICE } from '@holdfast/cloud-http';
import { unlessAborted } from '@holdfast/core/contract';
import { CredentialsError } from './errors.ts';

/** For blobs of every cloud. */
const SCOPE = 'https://storage.azure.com/.default';

/** A token is replaced so long before it ends: the longest request may take it along. */
const RENEWED_MS_BEFORE_END = 5 * 60_000;

/** The library asks one place after another, each with timeouts of its own. */
const LOOKUP_TIMEOUT_MS = 60_000;

const ADVICE =
  'set AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING, sign in with `az login`, or give the machine an identity';

export class IdentityTokens {
  readonly #find: () => Promise<TokenCredential>;
  #credential: Promise<TokenCredential> | undefined;
  #token: AccessToken | undefined;
  /** One lookup serves all who wait for it. */
  #lookup: Promise<AccessToken> | undefined;

  /** `find`: the credentials of the machine, looked for at the first request. */
  constructor(find: () => Promise<TokenCredential> = defaultCredential) {
    this.#find = find;
  }

  /** One that is valid; if it can be had, for some minutes yet. `CredentialsError`: there is none. */
  async current(signal: AbortSignal | undefined): Promise<string> {
    const token = this.#token;
    if (token === undefined) return (await this.#shared(signal)).token;
    const leftMs = token.expiresOnTimestamp - Date.now();
    if (leftMs > RENEWED_MS_BEFORE_END) return token.token;
    try {
      return (await this.#shared(signal)).token;
    } catch (error) {
      if (leftMs <= 0 || !(error instanceof CredentialsError)) throw error;
      return token.token; // the next request tries again
    }
  }

  /** Asks for another one. False: it is the same as before. */
  async renew(signal: AbortSignal | undefined): Promise<boolean> {
    const before = this.#token?.token;
    return (await this.#shared(signal)).token !== before;
  }

  #shared(signal: AbortSignal | undefined): Promise<AccessToken> {
    this.#lookup ??= this.#fetch().finally(() => {
      this.#lookup = undefined;
    });
    return unlessAborted(this.#lookup, signal);
  }

  async #fetch(): Promise<AccessToken> {
    try {
      this.#credential ??= this.#find();
      const credential = await this.#credential;
      const token = await credential.getToken(SCOPE, { abortSignal: AbortSignal.timeout(LOOKUP_TIMEOUT_MS) });
      if (token === null) throw new Error('there is no token');
      this.#token = token;
      return token;
    } catch (error) {
      const failure = new LibraryFailure(error);
      const reason = failure.message;
      if (failure.status === 407)
        throw new CredentialsError(
          `no token can be had: the proxy wants credentials (${reason}); ${LOGIN_ADVICE}`,
          {
            isTemporary: false,
          },
        );
      // Where there has been a token before, there will be one again.
      const what =
        this.#token === undefined
          ? `no credentials were found (${reason}); ${ADVICE}`
          : `the token has expired, and no other could be had (${reason})`;
      throw new CredentialsError(what, { cause: failure, isTemporary: this.#token !== undefined });
    }
  }
}

/** The library is loaded only by those who need it: it takes a third of a second. */
async function defaultCredential(): Promise<TokenCredential> {
  const { DefaultAzureCredential } = await import('@azure/identity');
  return new DefaultAzureCredential();
}
