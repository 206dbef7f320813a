/** What the store says of an object, held against what was sent. */

import { HttpRefusal, objectError, type StoreSubject } from '@holdfast/cloud-http';
import { type CallOptions, CheckpointError } from '@holdfast/core/contract';
import type { GcsObjects } from './objects.ts';
import type { GcsObject } from './values.ts';

export interface Sent {
  readonly sizeBytes: number;
  readonly crc32c?: number | undefined;
}

/**
 * A part of an upload, or what became of one, that was just written. One that is not what was sent
 * is deleted, since nobody knows it yet, and then `Corrupt` is thrown.
 */
export async function written(
  objects: GcsObjects,
  subject: StoreSubject,
  object: GcsObject,
  sent: Sent,
): Promise<GcsObject> {
  if (isSame(object, sent)) return object;
  // Whether it can be deleted changes nothing about what is to be told.
  await objects.remove(object.name, { generation: object.generation }).catch(() => undefined);
  throw objectError('Corrupt', subject, differenceOf(object, sent));
}

/**
 * An object that others may have read already: it stays, and whoever wrote it does not know what
 * there is.
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

/** Undefined: there was one already. */
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
 * The object under a key that nobody else uses: of a call whose answer was lost. `AlreadyExists` if
 * it is not what was sent.
 */
export async function earlierEffect(
  objects: GcsObjects,
  subject: StoreSubject,
  name: string,
  { signal, ...sent }: Sent & CallOptions,
): Promise<GcsObject> {
  const object = await objects.metadata(name, { signal });
  if (isSame(object, sent)) return object;
  throw objectError('AlreadyExists', subject, 'exists already');
}

function isSame(object: GcsObject, { sizeBytes, crc32c }: Sent): boolean {
  const isSameCrc = crc32c === undefined || object.crc32c === undefined || object.crc32c === crc32c;
  return isSameCrc && object.sizeBytes === sizeBytes;
}
