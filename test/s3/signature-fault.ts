/**
 * Checks Signature Version 4 as a server does. It is written from the specification, not from the
 * code under test.
 */

import { createHash, createHmac } from 'node:crypto';

export interface SignedRequest {
  readonly method: string;
  readonly path: string;
  readonly search: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

function sha256(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('hex');
}

function hmac(key: string | Buffer, data: string): Buffer {
  return createHmac('sha256', key).update(data).digest();
}

/** Encodes everything but letters, digits and -._~, with capital hex digits. */
export function encoded(text: string): string {
  return Array.from(Buffer.from(text), (byte) => {
    const character = String.fromCharCode(byte);
    return /[A-Za-z0-9._~-]/.test(character)
      ? character
      : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  }).join('');
}

function canonicalQuery(search: string): string {
  const pairs = search === '' ? [] : search.split('&').map((pair) => pair.split('='));
  return pairs
    .map(([name = '', value = '']) => [encoded(decodeURIComponent(name)), encoded(decodeURIComponent(value))])
    .sort(([a = ''], [b = '']) => (a < b ? -1 : 1))
    .map((pair) => pair.join('='))
    .join('&');
}

/**
 * `undefined` if the request is correctly encoded and is signed with the secret of its access key
 * id.
 */
export function signatureFault(
  { method, path, search, headers, body }: SignedRequest,
  secretOf: (accessKeyId: string) => string,
): string | undefined {
  const form =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$/;
  const match = form.exec(headers['authorization'] ?? '');
  if (match === null) return `not an authorization header: ${headers['authorization'] ?? 'none'}`;
  const [, accessKeyId = '', date = '', region = '', signedNames = '', signature] = match;
  if (
    path !==
    path
      .split('/')
      .map((segment) => encoded(decodeURIComponent(segment)))
      .join('/')
  )
    return `the path is not encoded as is due: ${path}`;
  const names = signedNames.split(';');
  const unsigned = Object.keys(headers).filter(
    (name) => (name === 'host' || name.startsWith('x-amz-')) && !names.includes(name),
  );
  if (unsigned.length > 0) return `not signed: ${unsigned.join(', ')}`;
  const contentHash = headers['x-amz-content-sha256'] ?? '';
  if (contentHash !== 'UNSIGNED-PAYLOAD' && contentHash !== sha256(body)) return 'the body is another one';
  const canonical = [
    method,
    path,
    canonicalQuery(search),
    ...names.map((name) => `${name}:${(headers[name] ?? '').trim().replace(/ +/g, ' ')}`),
    '',
    signedNames,
    contentHash,
  ].join('\n');
  const scope = `${date}/${region}/s3/aws4_request`;
  const text = ['AWS4-HMAC-SHA256', headers['x-amz-date'] ?? '', scope, sha256(canonical)].join('\n');
  const key = ['s3', 'aws4_request'].reduce(
    (derived, part) => hmac(derived, part),
    hmac(hmac(`AWS4${secretOf(accessKeyId)}`, date), region),
  );
  return hmac(key, text).toString('hex') === signature ? undefined : 'the signature is another one';
}

/** The region that a request is signed for. */
export function signedRegion({ headers }: { headers: Readonly<Record<string, string>> }): string | undefined {
  return /Credential=[^/]+\/\d+\/([^/]+)\//.exec(headers['authorization'] ?? '')?.[1];
}
