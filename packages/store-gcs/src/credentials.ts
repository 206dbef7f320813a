/**
 * Tokens of the default credentials: `GOOGLE_APPLICATION_CREDENTIALS`, gcloud's file, workload
 * identity, or the metadata server. The library that finds them is loaded when the first token is
 * needed.
 */

import { CredentialsError, type Expiring, LibraryFailure, LOGIN_ADVICE, Renewed } from '@holdfast/cloud-http';

/** Allows reading, writing and deleting objects, and reading the bucket's metadata. */
const SCOPE = 'https://www.googleapis.com/auth/devstorage.read_write';
/** Timeout of one request of the library. */
const REQUEST_TIMEOUT_MS = 10_000;

export type Tokens = Renewed<string>;

/** `from`: source of the tokens, for messages. */
export function defaultTokens(from: string): Tokens {
  return new Renewed({
    fetch: fetchDefaultToken,
    source: () => from,
    failure: credentialsError,
  });
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
