/** Checks and tokens that all uploads in parts share. */

import type { CompleteOptions, PartReceipt, StoreCapabilities } from '@holdfast/core/contract';
import { objectError, type StoreSubject } from './errors.ts';

export function isPartSize(
  { minPartBytes, maxPartBytes }: Pick<StoreCapabilities, 'minPartBytes' | 'maxPartBytes'>,
  sizeBytes: number,
): boolean {
  return Number.isSafeInteger(sizeBytes) && sizeBytes >= minPartBytes && sizeBytes <= maxPartBytes;
}

/**
 * For an upload from a listing that does not report its part size. Such an upload can be examined
 * and aborted.
 */
export const PART_SIZE_UNKNOWN = 0;

function assertPartSizeKnown(subject: StoreSubject, sizeBytes: number): void {
  if (sizeBytes !== PART_SIZE_UNKNOWN) return;
  const what = 'cannot resume an upload from a listing, which does not show the size of its parts';
  throw objectError('InvalidArgument', subject, what);
}

export function assertPartSize(
  subject: StoreSubject,
  capabilities: Pick<StoreCapabilities, 'minPartBytes' | 'maxPartBytes'>,
  sizeBytes: number,
): void {
  if (isPartSize(capabilities, sizeBytes)) return;
  const { minPartBytes, maxPartBytes } = capabilities;
  const what = `cannot have parts of ${sizeBytes} bytes; a part has from ${minPartBytes} to ${maxPartBytes}`;
  throw objectError('InvalidArgument', subject, what);
}

export interface PartLimits {
  readonly partSizeBytes: number;
  readonly maxParts: number;
}

export function assertPart(
  subject: StoreSubject,
  { partSizeBytes, maxParts }: PartLimits,
  index: number,
  sizeBytes: number,
): void {
  assertPartSizeKnown(subject, partSizeBytes);
  if (!Number.isSafeInteger(index) || index < 0 || index >= maxParts) {
    const what = `has no part ${index}; parts are numbered 0 to ${maxParts - 1}`;
    throw objectError('InvalidArgument', subject, what);
  }
  if (sizeBytes > partSizeBytes) {
    const what = `was given a part of ${sizeBytes} bytes; its parts have ${partSizeBytes}`;
    throw objectError('InvalidArgument', subject, what);
  }
}

/** Checks that the parts fit together, because a store may accept parts that do not. */
export function assertComplete(
  subject: StoreSubject,
  partSizeBytes: number,
  parts: readonly PartReceipt[],
  { sizeBytes }: Pick<CompleteOptions, 'sizeBytes'>,
): void {
  assertPartSizeKnown(subject, partSizeBytes);
  let sumBytes = 0;
  for (const [index, part] of parts.entries()) {
    if (part.index !== index)
      throw objectError('InvalidArgument', subject, `cannot be completed: part ${index} is missing`);
    if (index < parts.length - 1 && part.sizeBytes !== partSizeBytes) {
      const what = `cannot be completed: part ${index} has ${part.sizeBytes} bytes, not ${partSizeBytes}, and is not the last`;
      throw objectError('InvalidArgument', subject, what);
    }
    sumBytes += part.sizeBytes;
  }
  if (sumBytes !== sizeBytes)
    throw objectError('Corrupt', subject, `has parts of ${sumBytes} bytes together; expected ${sizeBytes}`);
}

/** Part size in a token: valid as for `isPartSize`, or unknown. */
export function isTokenPartSize(
  capabilities: Pick<StoreCapabilities, 'minPartBytes' | 'maxPartBytes'>,
  sizeBytes: unknown,
): boolean {
  return (
    sizeBytes === PART_SIZE_UNKNOWN || (typeof sizeBytes === 'number' && isPartSize(capabilities, sizeBytes))
  );
}

/** Tokens of uploads are JSON in base64url. */
export function encodeToken(token: object): string {
  return Buffer.from(JSON.stringify(token)).toString('base64url');
}

/** `isToken` checks the decoded value. Throws `InvalidArgument` if it is invalid. */
export function decodeToken<Token>(
  subject: StoreSubject,
  text: string,
  isToken: (value: Partial<Record<keyof Token, unknown>>) => boolean,
): Token {
  try {
    const value = JSON.parse(Buffer.from(text, 'base64url').toString()) as Token;
    if (typeof value === 'object' && value !== null && isToken(value)) return value;
  } catch {
    // Reported below, like any other invalid token.
  }
  const what = 'cannot resume an upload with this token: it is not from this store';
  throw objectError('InvalidArgument', subject, what);
}
