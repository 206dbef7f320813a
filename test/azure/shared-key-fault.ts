/** Checks the signature of a request with the code of Azure's own SDK. */

import { type HttpHeaders, StorageSharedKeyCredential, type WebResource } from '@azure/storage-blob';

interface SignedRequest {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

interface Account {
  readonly account: string;
  /** Base64. */
  readonly key: string;
}

/** Describes the fault, or returns `undefined` if the signature is correct. */
export async function sharedKeyFault(request: SignedRequest, account: Account): Promise<string | undefined> {
  const { authorization } = request.headers;
  if (authorization === undefined) return 'it has none';
  const signed = new SignedHeaders(request.headers);
  const policy = new StorageSharedKeyCredential(account.account, account.key).create(
    { sendRequest: (resource) => Promise.reject(resource) },
    { log: () => undefined, shouldLog: () => false },
  );
  const resource = {
    url: `http://127.0.0.1${request.target}`,
    method: request.method,
    headers: signed as unknown as HttpHeaders,
    body: Buffer.from(request.body),
  };
  // This rejects with the request that would be sent.
  await policy.sendRequest(resource as unknown as WebResource).catch(() => undefined);
  if (signed.authorization === undefined) throw new Error('the SDK has signed nothing');
  return authorization === signed.authorization ? undefined : `it is not that of the SDK, ${account.account}`;
}

/**
 * The part of the SDK's headers that its signer uses. The date is the request's, not the current
 * one.
 */
class SignedHeaders {
  authorization: string | undefined;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(headers: Readonly<Record<string, string>>) {
    this.#headers = headers;
  }

  set(name: string, value: string): void {
    if (name.toLowerCase() === 'authorization') this.authorization = value;
  }

  get(name: string): string | undefined {
    return this.#headers[name.toLowerCase()];
  }

  headersArray(): { name: string; value: string }[] {
    return Object.entries(this.#headers).map(([name, value]) => ({ name, value }));
  }
}
