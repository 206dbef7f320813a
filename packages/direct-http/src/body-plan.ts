/** Decides from an answer's head where its body goes, before the first byte is placed. Pure. */

import { badHead, DirectHttpError, type DirectHttpErrorCode } from './errors.ts';
import type { DirectRequest, Into } from './message.ts';
import type { ResponseHead } from './response-head.ts';

const ERROR_BYTES_MAX = 1024 * 1024;
const ANSWER_BYTES_MAX = 16 * 1024 * 1024;

export type BodyPlan =
  /**
   * Exactly `destination.byteLength` bytes, into the caller's memory, or into our own if `isInto`
   * is false.
   */
  | { readonly kind: 'fill'; readonly destination: Uint8Array; readonly isInto: boolean }
  | ({ readonly kind: 'chunked' } & BodyLimit)
  /** All bytes until the server closes. */
  | ({ readonly kind: 'to-eof' } & BodyLimit);

export interface BodyLimit {
  readonly bytesMax: number;
  /** The text of an error says nothing about the size of an object. */
  readonly codeIfLarger: 'TOO_LARGE' | 'BAD_BODY';
}

const NOTHING: BodyPlan = { kind: 'fill', destination: new Uint8Array(0), isInto: false };

function refuse(code: DirectHttpErrorCode, message: string): DirectHttpError {
  return new DirectHttpError(code, message, { phase: 'head' });
}

function checkRange(head: ResponseHead, lengthBytes: number, into: Into): void {
  const start = into.startBytes ?? 0;
  const range = head.headers['content-range'];
  if (head.status === 200) {
    if (range !== undefined) throw refuse('RANGE_MISMATCH', 'status 200 has a Content-Range');
    if (start > 0) throw refuse('RANGE_MISMATCH', `asked for bytes from ${start}, got the object from 0`);
    return;
  }
  const match = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15}|\*)$/.exec(range ?? '');
  if (match === null) throw refuse('RANGE_MISMATCH', 'status 206 is without one Content-Range in bytes');
  const first = Number(match[1]);
  const last = Number(match[2]);
  const total = match[3] === '*' ? undefined : Number(match[3]);
  if (first !== start)
    throw refuse('RANGE_MISMATCH', `asked for bytes from ${start}, got them from ${first}`);
  if (last - first + 1 !== lengthBytes || (total !== undefined && last >= total)) {
    throw refuse(
      'RANGE_MISMATCH',
      `Content-Range ${range} and Content-Length ${lengthBytes} contradict each other`,
    );
  }
  if (lengthBytes < into.buffer.byteLength && last + 1 !== total) {
    throw refuse(
      'RANGE_MISMATCH',
      `asked for ${into.buffer.byteLength} bytes, got ${lengthBytes}, and the object does not end there (${range})`,
    );
  }
}

function planInto(head: ResponseHead, into: Into): BodyPlan {
  const { etag, 'content-encoding': encoding } = head.headers;
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw refuse('BAD_BODY', 'the body has a Content-Encoding and cannot go into the buffer');
  }
  const lengthBytes = head.contentLengthBytes;
  if (lengthBytes === undefined) {
    throw refuse('BAD_BODY', 'the body has no Content-Length and cannot go into the buffer');
  }
  if (lengthBytes > into.buffer.byteLength) {
    throw refuse('TOO_LARGE', `the body has ${lengthBytes} bytes, the buffer ${into.buffer.byteLength}`);
  }
  checkRange(head, lengthBytes, into);
  if (into.etag !== undefined && into.etag !== etag) {
    throw refuse('ETAG_MISMATCH', `asked for ETag ${into.etag}, got ${etag ?? 'none'}`);
  }
  return { kind: 'fill', destination: into.buffer.subarray(0, lengthBytes), isInto: true };
}

/**
 * Throws `BAD_HEAD`, `BAD_BODY`, `TOO_LARGE`, `RANGE_MISMATCH`, `ETAG_MISMATCH`. `head`: of a final
 * answer.
 */
export function planBody(head: ResponseHead, request: DirectRequest): BodyPlan {
  const { status } = head;
  if (request.method === 'HEAD' || status === 204 || status === 304) return NOTHING;
  if (request.into !== undefined && (status === 200 || status === 206)) return planInto(head, request.into);

  const limit: BodyLimit =
    status >= 300
      ? { bytesMax: ERROR_BYTES_MAX, codeIfLarger: 'BAD_BODY' }
      : { bytesMax: request.bodyBytesMax ?? ANSWER_BYTES_MAX, codeIfLarger: 'TOO_LARGE' };
  if (head.isChunked) return { kind: 'chunked', ...limit };
  if (head.contentLengthBytes !== undefined) {
    if (head.contentLengthBytes === 0) return NOTHING;
    if (head.contentLengthBytes > limit.bytesMax) {
      const what = `the body of HTTP ${status} has ${head.contentLengthBytes} bytes`;
      throw refuse(limit.codeIfLarger, `${what}; at most ${limit.bytesMax} are collected`);
    }
    return { kind: 'fill', destination: new Uint8Array(head.contentLengthBytes), isInto: false };
  }
  // The end of a body without a length looks like a lost connection. That is acceptable only for
  // the text of an error.
  if (status < 300) throw badHead('a success has neither Content-Length nor chunks');
  return { kind: 'to-eof', ...limit };
}
