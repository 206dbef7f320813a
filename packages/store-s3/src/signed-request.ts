import { bareHostname, type TransportRequest } from '@holdfast/cloud-http';
import { buildQueryString, type HttpRequest } from '@smithy/core/protocols';

/** Converts a request signed by the SDK for our transport. */
export function toTransportRequest(request: HttpRequest): TransportRequest {
  const protocol = request.protocol === 'http:' ? 'http:' : 'https:';
  const query = buildQueryString(request.query);
  return {
    protocol,
    hostname: bareHostname(request.hostname),
    port: request.port ?? (protocol === 'http:' ? 80 : 443),
    method: request.method,
    path: query === '' ? request.path : `${request.path}?${query}`,
    headers: request.headers,
    secrets: secretsOf(request.headers),
    body: bytesOf(request.body),
  };
}

const SECRET_HEADERS = ['x-amz-security-token', 'x-amz-server-side-encryption-customer-key'];

function secretsOf(headers: Readonly<Record<string, string>>): string[] {
  const given = SECRET_HEADERS.flatMap((name) => headers[name] ?? []);
  const [, signature] = headers['authorization']?.split('Signature=') ?? [];
  return signature === undefined ? given : [...given, signature];
}

/** Our commands never have a stream as their body. */
function bytesOf(body: unknown): Uint8Array | undefined {
  if (body === undefined || body === null || body instanceof Uint8Array) return body ?? undefined;
  if (typeof body === 'string') return new TextEncoder().encode(body);
  throw new TypeError(`a request's body is bytes or text, not ${typeof body}`);
}
