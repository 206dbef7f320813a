/** Authorizes requests: by a signature, a SAS, or a token. */

import { createHmac, createSecretKey, type KeyObject } from 'node:crypto';
import type { AzureConfig } from './config.ts';
import { type IdentityTokens, identityTokens } from './credentials.ts';
import { readSas } from './shared-access.ts';

/** A request that still lacks its credentials. */
export interface UnauthorizedRequest {
  readonly method: string;
  /** Percent-encoded, without query. */
  readonly path: string;
  /** Not encoded. */
  readonly query: Readonly<Record<string, string>>;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly bodyBytes: number;
}

export interface Authorized {
  /** With the query, encoded. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface SourceBlob {
  readonly container: string;
  readonly blob: string;
  /** By the store's clock. */
  readonly nowMs: number;
}

export interface SourceAccess {
  /** The query of the URL, a bearer secret; may be empty. */
  readonly query: string;
  /** Headers for the request that makes the copy. */
  readonly headers: Readonly<Record<string, string>>;
}

export interface Authorization {
  authorize(request: UnauthorizedRequest, signal: AbortSignal | undefined): Authorized | Promise<Authorized>;
  /** Authorizes the store to fetch a blob for a copy. */
  forSource(source: SourceBlob, signal: AbortSignal | undefined): Promise<SourceAccess>;
  /** Called after a refusal. False: a retry would use the same credentials. */
  renew(signal: AbortSignal | undefined): boolean | Promise<boolean>;
}

export function authorizationOf({ account, credentials }: AzureConfig): Authorization {
  if (credentials.kind === 'key') return new SharedKey(account, credentials.key.reveal());
  if (credentials.kind === 'sas') return new Sas(credentials.token.reveal());
  return new Bearer(identityTokens(credentials.identity));
}

/** Secrets that requests are signed with and that no request holds. */
export function signingSecretsOf({ credentials }: AzureConfig): string[] {
  return credentials.kind === 'key' ? [credentials.key.reveal()] : [];
}

/** Secrets in a request: a signature, a token, a customer-provided key. */
export function secretsOf({ path, headers }: Authorized): string[] {
  const bearers = [headers['authorization'], headers['x-ms-copy-source-authorization']];
  const words = bearers.map((value) => value?.replace(/^(Bearer |SharedKey [^:]*:)/, ''));
  const signatures = [path, headers['x-ms-copy-source']].map(signatureIn);
  return [...words, ...signatures, headers['x-ms-encryption-key']].filter((secret) => secret !== undefined);
}

/** Signature of the SAS in a URL. */
function signatureIn(url: string | undefined): string | undefined {
  const query = url?.split('?')[1];
  return query === undefined ? undefined : (new URLSearchParams(query).get('sig') ?? undefined);
}

/**
 * Signs a request with the account key.
 * https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key
 */
export function sharedKeySignature(
  { account, key }: { readonly account: string; readonly key: KeyObject },
  { method, path, query, headers, bodyBytes }: UnauthorizedRequest,
): string {
  const header = (name: string) => headers[name] ?? '';
  const text = [
    method,
    header('content-encoding'),
    header('content-language'),
    bodyBytes === 0 ? '' : String(bodyBytes),
    header('content-md5'),
    header('content-type'),
    '', // The date is in x-ms-date.
    header('if-modified-since'),
    header('if-match'),
    header('if-none-match'),
    header('if-unmodified-since'),
    header('range'),
    ...signedHeaders(headers),
    `/${account}${path}`,
    ...Object.keys(query)
      .sort()
      .map((name) => `${name.toLowerCase()}:${query[name]}`),
  ].join('\n');
  return createHmac('sha256', key).update(text).digest('base64');
}

/**
 * The store sorts names by a linguistic order, not by bytes: it considers '-' last. For the names
 * that we send both orders are equal. A test compares them with Azure's SDK.
 */
function signedHeaders(headers: Readonly<Record<string, string>>): string[] {
  return Object.keys(headers)
    .filter((name) => name.startsWith('x-ms-'))
    .sort()
    .map((name) => `${name}:${headers[name]}`);
}

class SharedKey implements Authorization {
  readonly #account: string;
  readonly #key: KeyObject;

  constructor(account: string, key: string) {
    this.#account = account;
    this.#key = createSecretKey(key, 'base64');
  }

  authorize(request: UnauthorizedRequest): Authorized {
    const signature = sharedKeySignature({ account: this.#account, key: this.#key }, request);
    return {
      path: withQuery(request, ''),
      headers: { ...request.headers, authorization: `SharedKey ${this.#account}:${signature}` },
    };
  }

  async forSource(source: SourceBlob): Promise<SourceAccess> {
    return { query: readSas({ account: this.#account, key: this.#key }, source), headers: {} };
  }

  renew(): boolean {
    return false;
  }
}

class Sas implements Authorization {
  readonly #token: string;

  constructor(token: string) {
    this.#token = token;
  }

  authorize(request: UnauthorizedRequest): Authorized {
    return { path: withQuery(request, this.#token), headers: request.headers };
  }

  async forSource(): Promise<SourceAccess> {
    return { query: this.#token, headers: {} };
  }

  renew(): boolean {
    return false;
  }
}

class Bearer implements Authorization {
  readonly #tokens: IdentityTokens;

  constructor(tokens: IdentityTokens) {
    this.#tokens = tokens;
  }

  async authorize(request: UnauthorizedRequest, signal: AbortSignal | undefined): Promise<Authorized> {
    const token = await this.#tokens.current(signal);
    return {
      path: withQuery(request, ''),
      headers: { ...request.headers, authorization: `Bearer ${token}` },
    };
  }

  async forSource(_source: SourceBlob, signal: AbortSignal | undefined): Promise<SourceAccess> {
    const token = await this.#tokens.current(signal);
    return { query: '', headers: { 'x-ms-copy-source-authorization': `Bearer ${token}` } };
  }

  async renew(signal: AbortSignal | undefined): Promise<boolean> {
    const before = await this.#tokens.current(signal);
    return (await this.#tokens.renew(before, signal)) !== before;
  }
}

function withQuery({ path, query }: UnauthorizedRequest, sas: string): string {
  const pairs = Object.entries(query).map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
  const all = [...pairs, ...(sas === '' ? [] : [sas])].join('&');
  return all === '' ? path : `${path}?${all}`;
}
