/** How GCS tells of objects, and how we keep it. */

import { crcOfBase64, dateMs, isXmlOf, jsonValue, type TransportAnswer } from '@holdfast/cloud-http';
import type { ObjectInfo } from '@holdfast/core/contract';
import { foreignSuccess } from './errors.ts';

export interface GcsObject {
  /** From the root of the bucket. */
  readonly name: string;
  readonly sizeBytes: number;
  /** The version: never the same for two objects of one name. */
  readonly generation: string;
  readonly createdAtMs: number;
  readonly crc32c: number | undefined;
}

/** The fields of an object that requests ask for. */
export const OBJECT_FIELDS = 'name,size,generation,timeCreated,crc32c';

/**
 * Of an answer in JSON. One that is no object is thrown as the refusal of a server that is no GCS,
 * and one that is cut off as a broken body.
 */
export function jsonOf(answer: TransportAnswer): Record<string, unknown> {
  const value = jsonValue(new TextDecoder().decode(answer.body), isOfGoogle(answer));
  if (typeof value === 'object' && value !== null) return value as Record<string, unknown>;
  throw foreignSuccess(answer);
}

/** Of an answer in XML whose root element is called so; refused like `jsonOf` does. */
export function xmlOf(answer: TransportAnswer, root: RegExp): string {
  const text = new TextDecoder().decode(answer.body);
  if (isXmlOf(text, root, isOfGoogle(answer))) return text;
  throw foreignSuccess(answer);
}

function isOfGoogle({ headers }: TransportAnswer): boolean {
  return headers['x-guploader-uploadid'] !== undefined;
}

/** From an object resource of the JSON API; undefined if it is none. */
export function objectOf(resource: unknown): GcsObject | undefined {
  if (typeof resource !== 'object' || resource === null) return undefined;
  // Encoders of the protocol leave out what is zero.
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

export function infoOf(key: string, { sizeBytes, generation, createdAtMs }: GcsObject): ObjectInfo {
  return { key, sizeBytes, etag: generation, createdAtMs };
}

/** Of an answer that holds an object's bytes. */
export function infoOfRead(key: string, answer: TransportAnswer, sizeBytes: number): ObjectInfo {
  const { 'x-goog-generation': etag, 'last-modified': lastModified } = answer.headers;
  if (etag === undefined) throw foreignSuccess(answer);
  return { key, sizeBytes, etag, createdAtMs: dateMs(lastModified) };
}
