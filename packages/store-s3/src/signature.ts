/**
 * Signs requests by Signature Version 4 in their headers:
 * https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html. Tests compare it
 * with AWS's own signer.
 */

import { createHash, createHmac, createSecretKey, type KeyObject } from 'node:crypto';

/** Credentials that sign requests. */
export interface AwsKeys {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
}

export interface UnsignedRequest {
  readonly method: string;
  /** Encoded, as it is sent. */
  readonly path: string;
  /** Encoded and sorted, as `queryText` returns it. */
  readonly query: string;
  /** All headers that are sent, with `host` and `x-amz-content-sha256`. Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
}

export interface SigningOptions {
  readonly keys: AwsKeys;
  readonly region: string;
  readonly date: Date;
}

const ALGORITHM = 'AWS4-HMAC-SHA256';

export class Signer {
  /** Preparing a key costs more than using it, and one serves a whole day. */
  #last: { readonly secret: string; readonly scope: string; readonly key: KeyObject } | undefined;

  /** Headers that carry the signature, in addition to those of the request. */
  sign(request: UnsignedRequest, { keys, region, date }: SigningOptions): Record<string, string> {
    const time = date.toISOString().replace(/[-:]|\.\d+/g, '');
    const scope = `${time.slice(0, 8)}/${region}/s3/aws4_request`;
    const { accessKeyId, secretAccessKey, sessionToken } = keys;
    const added: Record<string, string> = {
      'x-amz-date': time,
      ...(sessionToken !== undefined && { 'x-amz-security-token': sessionToken }),
    };
    const headers = { ...request.headers, ...added };
    const names = Object.keys(headers).sort();
    const canonical = canonicalText({ ...request, headers }, names);
    const text = [ALGORITHM, time, scope, sha256Hex(canonical)].join('\n');
    const signature = createHmac('sha256', this.#keyOf(secretAccessKey, scope)).update(text).digest('hex');
    const authorization = `${ALGORITHM} Credential=${accessKeyId}/${scope}, SignedHeaders=${names.join(';')}, Signature=${signature}`;
    return { ...added, authorization };
  }

  #keyOf(secret: string, scope: string): KeyObject {
    if (this.#last?.secret === secret && this.#last.scope === scope) return this.#last.key;
    const bytes = scope
      .split('/')
      .reduce<string | Buffer>(
        (key, part) => createHmac('sha256', key).update(part).digest(),
        `AWS4${secret}`,
      ) as Buffer;
    const key = createSecretKey(bytes);
    this.#last = { secret, scope, key };
    return key;
  }
}

function canonicalText({ method, path, query, headers }: UnsignedRequest, names: readonly string[]): string {
  const lines = names.map((name) => `${name}:${(headers[name] ?? '').trim().replace(/\s+/g, ' ')}`);
  const payload = headers['x-amz-content-sha256'] ?? '';
  return [method, path, query, ...lines, '', names.join(';'), payload].join('\n');
}

export function sha256Hex(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('hex');
}

/** Path of an object, encoded segment by segment. */
export function pathText(key: string): string {
  return key.split('/').map(encoded).join('/');
}

/** Query in the order in which it is signed. */
export function queryText(pairs: readonly (readonly [name: string, value: string])[]): string {
  return pairs
    .map((pair) => pair.map(encoded))
    .sort(([a = ''], [b = '']) => (a < b ? -1 : a > b ? 1 : 0))
    .map((pair) => pair.join('='))
    .join('&');
}

/** Encodes everything but letters, digits and `-._~`. */
function encoded(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

const SECRET_HEADERS = ['x-amz-security-token', 'x-amz-server-side-encryption-customer-key'];

/** The secrets in the headers of a signed request. */
export function secretsOf(headers: Readonly<Record<string, string>>): string[] {
  const given = SECRET_HEADERS.flatMap((name) => headers[name] ?? []);
  const [, signature] = headers['authorization']?.split('Signature=') ?? [];
  return signature === undefined ? given : [...given, signature];
}
