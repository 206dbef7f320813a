/** Compares the store's description of an object with what was sent. */

import { HttpRefusal, objectError, type StoreSubject } from '@holdfast/cloud-http';
import { type CallOptions, CheckpointError } from '@holdfast/core/contract';
import type { GcsObject } from './answers.ts';
import type { GcsObjects } from './objects.ts';

export interface Sent {
  readonly sizeBytes: number;
  readonly crc32c?: number | undefined;
}

/**
 * Checks a part of an upload, or an intermediate object, that was just written. On a mismatch it
 * deletes the object, which no other process knows yet, and throws `Corrupt`.
 */
export async function written(
  objects: GcsObjects,
  subject: StoreSubject,
  object: GcsObject,
  sent: Sent,
): Promise<GcsObject> {
  if (isSame(object, sent)) return object;
  // Report the mismatch whether the deletion succeeds or not.
  await objects.remove(object.name, { generation: object.generation }).catch(() => undefined);
  throw objectError('Corrupt', subject, differenceOf(object, sent));
}

/**
 * Checks an object that other processes may have read already. On a mismatch the object stays, and
 * the error says that its content is unknown.
 */
export function assertWritten(subject: StoreSubject, object: GcsObject, sent: Sent): void {
  if (isSame(object, sent)) return;
  const { message, context } = objectError('Corrupt', subject, differenceOf(object, sent));
  throw new CheckpointError('Corrupt', message, { context, status: 'exhausted' });
}

function differenceOf({ sizeBytes, crc32c }: GcsObject, sent: Sent): string {
  const found = `${sizeBytes} bytes and the CRC32C ${crc32c}`;
  return `was written with ${found}; sent were ${sent.sizeBytes} bytes and ${sent.crc32c}`;
}

/** Undefined: one existed already. */
export async function ifAbsent(creation: Promise<GcsObject>): Promise<GcsObject | undefined> {
  try {
    return await creation;
  } catch (error) {
    if (error instanceof HttpRefusal && isExisting(error)) return undefined;
    throw error;
  }
}

function isExisting({ code }: HttpRefusal): boolean {
  return code === 'conditionNotMet' || code === 'PreconditionFailed';
}

/**
 * Finds the object that a call whose answer was lost has created, under a key that no other process
 * uses. `AlreadyExists` if it is not what was sent.
 */
export async function earlierEffect(
  objects: GcsObjects,
  subject: StoreSubject,
  name: string,
  { signal, ...sent }: Sent & CallOptions,
): Promise<GcsObject> {
  const object = await objects.metadata(name, { signal });
  if (isSame(object, sent)) return object;
  throw objectError('AlreadyExists', subject, 'already exists');
}

function isSame(object: GcsObject, { sizeBytes, crc32c }: Sent): boolean {
  const isSameCrc = crc32c === undefined || object.crc32c === undefined || object.crc32c === crc32c;
  return isSameCrc && object.sizeBytes === sizeBytes;
}
