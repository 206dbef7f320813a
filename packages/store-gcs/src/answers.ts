/** Converts GCS's descriptions of objects. */

import { crcOfBase64, isXmlOf, jsonValue, type TransportAnswer } from '@holdfast/cloud-http';
import type { ObjectInfo } from '@holdfast/core/contract';
import { foreignSuccess, isOfGoogle } from './errors.ts';

export interface GcsObject {
  /** From the root of the bucket. */
  readonly name: string;
  readonly sizeBytes: number;
  /** Generation number: unique among all objects of one name. */
  readonly generation: string;
  readonly createdAtMs: number;
  readonly crc32c: number | undefined;
}

/** Fields of an object that requests ask for. */
export const OBJECT_FIELDS = 'name,size,generation,timeCreated,crc32c';

/**
 * Parses a JSON answer. One that is not an object throws the refusal of a foreign server. A
 * truncated one throws `BAD_BODY`.
 */
export function jsonOf(answer: TransportAnswer): Record<string, unknown> {
  const value = jsonValue(new TextDecoder().decode(answer.body), isOfGoogle(answer));
  if (typeof value === 'object' && value !== null) return value as Record<string, unknown>;
  throw foreignSuccess(answer);
}

/** Returns the XML of an answer with this root element; throws as `jsonOf` does. */
export function xmlOf(answer: TransportAnswer, root: RegExp): string {
  const text = new TextDecoder().decode(answer.body);
  if (isXmlOf(text, root, isOfGoogle(answer))) return text;
  throw foreignSuccess(answer);
}

/** Parses an object resource of the JSON API; undefined if it is not one. */
export function objectOf(resource: unknown): GcsObject | undefined {
  if (typeof resource !== 'object' || resource === null) return undefined;
  // Encoders of the protocol omit zero values.
  const { name, size = 0, generation, timeCreated, crc32c } = resource as Record<string, unknown>;
  const sizeBytes = Number(size);
  const createdAtMs = Date.parse(String(timeCreated));
  if (
    typeof name !== 'string' ||
    typeof generation !== 'string' ||
    !Number.isSafeInteger(sizeBytes) ||
    Number.isNaN(createdAtMs)
  )
    return undefined;
  const crc = typeof crc32c === 'string' ? crcOfBase64(crc32c) : undefined;
  return { name, sizeBytes, generation, createdAtMs, crc32c: crc };
}

export function infoOf({ sizeBytes, generation, createdAtMs }: GcsObject): Omit<ObjectInfo, 'key'> {
  return { sizeBytes, etag: generation, createdAtMs };
}
