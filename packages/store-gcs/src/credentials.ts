/**
 * Tokens of the default credentials: `GOOGLE_APPLICATION_CREDENTIALS`, gcloud's file, workload
 * identity, or the metadata server. For a key or a login in a file one request suffices. For all
 * else Google's library is loaded when the first token is needed.
 */

import {
  CredentialsError,
  type Expiring,
  type HttpTransport,
  LibraryFailure,
  LOGIN_ADVICE,
  type RefusedAnswer,
  Renewed,
} from '@holdfast/cloud-http';
import { settingsIn, type TokenForm, tokenForm } from './credentials-file.ts';

/** Allows reading, writing and deleting objects, and reading the bucket's metadata. */
const SCOPE = 'https://www.googleapis.com/auth/devstorage.read_write';
/** Timeout of one request of the library. */
const REQUEST_TIMEOUT_MS = 10_000;

export type Tokens = Renewed<string>;

/** Google's server that issues tokens. */
const TOKEN_SERVER = {
  protocol: 'https:',
  hostname: 'oauth2.googleapis.com',
  port: 443,
  path: '/token',
} as const;

/** Google refused to issue a token. Only its code is kept, in the form of `LibraryFailure`. */
export class RefusedToken extends Error {
  readonly status: number;
  readonly response: { readonly status: number; readonly data: { readonly error: unknown } };

  constructor({ status }: RefusedAnswer, body: string) {
    super(`HTTP ${status}`);
    this.name = 'RefusedToken';
    this.status = status;
    const { error } = settingsIn(body);
    this.response = { status, data: { error } };
  }
}

/**
 * `from`: source of the tokens, for messages. `transport`: to Google's token server; its refusals
 * are `RefusedToken`.
 */
export function defaultTokens(from: string, transport: HttpTransport): Tokens {
  return new Renewed({
    fetch: async (signal) => {
      const form = await tokenForm(SCOPE);
      return form === undefined ? fetchDefaultToken(signal) : fetchToken(transport, form, signal);
    },
    source: () => from,
    failure: credentialsError,
  });
}

async function fetchToken(
  transport: HttpTransport,
  { body, secrets }: TokenForm,
  signal: AbortSignal,
): Promise<Expiring<string>> {
  const headers = { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' };
  const request = { ...TOKEN_SERVER, method: 'POST', headers, secrets, body: new TextEncoder().encode(body) };
  const answer = await transport.send(request, { signal });
  const { access_token: token, expires_in: lifeS } = settingsIn(new TextDecoder().decode(answer.body));
  // It was truncated, or a proxy has answered.
  if (typeof token !== 'string' || token === '')
    throw new CredentialsError('Unavailable', `no token at present (${TOKEN_SERVER.hostname} sent none)`);
  return { value: token, expiresAtMs: typeof lifeS === 'number' ? Date.now() + lifeS * 1000 : undefined };
}

/**
 * Makes a new client for each token, because a client would return a rejected token from its cache.
 */
async function fetchDefaultToken(signal: AbortSignal): Promise<Expiring<string>> {
  const { GoogleAuth } = await import('google-auth-library');
  const auth = new GoogleAuth({
    scopes: SCOPE,
    // No project is needed, and finding it may start gcloud.
    projectId: 'unused',
    clientOptions: { transporterOptions: { timeout: REQUEST_TIMEOUT_MS, signal } },
  });
  const client = await auth.getClient();
  const { token } = await client.getAccessToken();
  if (typeof token !== 'string' || token === '') throw new Error('the credentials provide no token');
  return { value: token, expiresAtMs: client.credentials.expiry_date ?? undefined };
}

/**
 * The library's errors contain requests with secrets and quote what was read, so none is kept as a
 * cause.
 */
export function credentialsError(error: unknown): CredentialsError {
  const failure = new LibraryFailure(error);
  const { kind, status, isTemporary } = failure;
  if (kind === 'SyntaxError')
    return new CredentialsError('InvalidConfig', 'the credentials cannot be used: their file is not JSON');
  if (error instanceof Error && /could not load the default credentials/i.test(error.message)) {
    const advice =
      'run `gcloud auth application-default login`, set GOOGLE_APPLICATION_CREDENTIALS, or give the machine a service account';
    return new CredentialsError('Denied', `no credentials were found; ${advice}`);
  }
  const told = failure.message;
  if (status === 407)
    return new CredentialsError(
      'Denied',
      `no token: the proxy requires credentials (${told}); ${LOGIN_ADVICE}`,
    );
  if (isTemporary) return new CredentialsError('Unavailable', `no token at present (${told})`);
  if (status !== undefined) {
    const advice = 'they may be revoked or expired; log in again, or use another key';
    return new CredentialsError('Denied', `the credentials were refused (${told}); ${advice}`);
  }
  const advice = 'check the file of GOOGLE_APPLICATION_CREDENTIALS, or log in again with gcloud';
  return new CredentialsError('InvalidConfig', `the credentials cannot be used (${told}); ${advice}`);
}
