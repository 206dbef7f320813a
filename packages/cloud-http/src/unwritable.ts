/**
 * Detects requests that cannot be written because a header has an invalid value, such as a token
 * with a trailing line break.
 */

import { DirectHttpError, isHeaderValue } from '@holdfast/direct-http';

/** Headers whose values come from credentials. */
const OF_CREDENTIALS: Readonly<Record<string, string>> = {
  authorization: 'an access key id or token of the credentials',
  'x-amz-security-token': 'the session token of the credentials',
  'x-ms-copy-source-authorization': 'the token of the credentials',
};

/** Nothing was or can be sent. The message names the kind of value, never the value. */
export class UnwritableRequest extends Error {
  constructor(what: string) {
    super(`the request cannot be written: ${what}`);
    this.name = 'UnwritableRequest';
  }
}

/**
 * Converts an error of a client that could not write a request; undefined: `error` is of another
 * kind.
 */
export function unwritableRequest(
  error: unknown,
  headers: Readonly<Record<string, string>>,
): UnwritableRequest | undefined {
  const isRefused = error instanceof DirectHttpError ? error.code === 'BAD_REQUEST' : isRefusedByNode(error);
  if (!isRefused) return undefined;
  const [name] = Object.entries(headers).find(([, value]) => !isHeaderValue(value)) ?? [];
  if (name === undefined) return new UnwritableRequest((error as Error).message);
  const what = OF_CREDENTIALS[name.toLowerCase()] ?? `the value of the header ${name}`;
  return new UnwritableRequest(
    `${what} contains a control character, such as a line break, or a character outside Latin-1`,
  );
}

function isRefusedByNode(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_INVALID_CHAR';
}
