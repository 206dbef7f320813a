/**
 * The JSON header of a safetensors file: type, shape and offsets of each tensor. Pure.
 *
 * A header may be hostile: the memory of its values is checked before it is parsed. Problems are
 * returned, never thrown.
 */

import type { TensorShape } from '../contract/history.ts';
import { areCounts, isJsonObject, jsonMemory, parseObject } from './bounded-json.ts';
import { tensorBytes } from './safetensors-dtypes.ts';

/** Memory for the values of a header; see `jsonMemory`. A tensor takes some 1,150 bytes of it. */
const MEMORY_MAX = 40 * 1024 * 1024;
const DIMENSIONS_MAX = 64;
const METADATA = '__metadata__';
/**
 * The key in a header's metadata under which PyTorch writes `{name: {"saved_offsets": […]}}` as
 * JSON (`_hf_utils.py` of `torch.distributed.checkpoint`).
 */
const SHARDING = 'DCP_SHARDING_INFO';
const DTYPE = /^[A-Z][A-Z0-9_]{0,15}$/;
const [QUOTE, BACKSLASH, COLON] = [...'"\\:'].map((character) => character.charCodeAt(0));
const OPENERS: ReadonlySet<number> = new Set([...'[{'].map((character) => character.charCodeAt(0)));
const CLOSERS: ReadonlySet<number> = new Set([...']}'].map((character) => character.charCodeAt(0)));

export interface Place {
  readonly name: string;
  readonly shape: TensorShape;
  readonly offsets: readonly number[] | null;
  /** Relative to the end of the header. */
  readonly startBytes: number;
  readonly endBytes: number;
}

/** The tensors in the order of their bytes, or the problem. */
export function parseHeader(bytes: Uint8Array, dataBytes: number): Place[] | string {
  const memory = jsonMemory(bytes, MEMORY_MAX);
  if (memory > MEMORY_MAX) return `the values of its header take more than ${MEMORY_MAX} bytes of memory`;
  const header = parseObject(bytes);
  if (!header) return 'its header is not a JSON object';
  // The parser keeps the later one of two equal names.
  if (namesIn(bytes) > Object.keys(header).length) return 'its header has a name twice';
  const places: Place[] = [];
  const sharding = shardingOf(header[METADATA], MEMORY_MAX - memory);
  for (const [name, entry] of Object.entries(header)) {
    if (name === METADATA) continue;
    const place = placeOf(name, entry, sharding);
    if (place === undefined)
      return `its header does not give type, shape and offsets of ${JSON.stringify(name)}`;
    const wantedBytes = tensorBytes(place.shape.dtype, place.shape.shape);
    if (wantedBytes !== undefined && wantedBytes !== BigInt(place.shape.sizeBytes))
      return `tensor ${JSON.stringify(name)} would have ${wantedBytes} bytes by its type and shape, and has ${place.shape.sizeBytes}`;
    places.push(place);
  }
  places.sort((a, b) => a.startBytes - b.startBytes || a.endBytes - b.endBytes);
  return gapIn(places, dataBytes) ?? places;
}

/** Counts the names of the outermost object of a valid JSON text. */
function namesIn(json: Uint8Array): number {
  let count = 0;
  let depth = 0;
  let isInString = false;
  for (let at = 0; at < json.byteLength; at += 1) {
    const byte = json[at] as number;
    if (isInString && byte === BACKSLASH) at += 1;
    else if (byte === QUOTE) isInString = !isInString;
    else if (isInString) continue;
    else if (OPENERS.has(byte)) depth += 1;
    else if (CLOSERS.has(byte)) depth -= 1;
    else if (byte === COLON && depth === 1) count += 1;
  }
  return count;
}

/**
 * Empty if the header says nothing of parts, or nothing that can be understood in the memory that
 * is left.
 */
function shardingOf(metadata: unknown, memoryBytes: number): ReadonlyMap<string, unknown> {
  const text = isJsonObject(metadata) ? metadata[SHARDING] : undefined;
  if (typeof text !== 'string') return new Map();
  const json = Buffer.from(text);
  const sharding = jsonMemory(json, memoryBytes) > memoryBytes ? undefined : parseObject(json);
  return new Map(Object.entries(sharding ?? {}));
}

function placeOf(name: string, entry: unknown, sharding: ReadonlyMap<string, unknown>): Place | undefined {
  if (!isJsonObject(entry)) return undefined;
  const { dtype, shape, data_offsets: offsets } = entry;
  if (typeof dtype !== 'string' || !DTYPE.test(dtype)) return undefined;
  if (!areCounts(shape) || shape.length > DIMENSIONS_MAX) return undefined;
  if (!areCounts(offsets) || offsets.length !== 2) return undefined;
  const [startBytes = 0, endBytes = 0] = offsets;
  if (endBytes < startBytes) return undefined;
  const part = sharding.get(name);
  const saved = isJsonObject(part) ? part['saved_offsets'] : undefined;
  return {
    name,
    shape: { dtype, shape, sizeBytes: endBytes - startBytes },
    offsets: areCounts(saved) && saved.length === shape.length ? saved : null,
    startBytes,
    endBytes,
  };
}

/**
 * Rejects overlaps and gaps: overlapping tensors would be read many times, and bytes in a gap would
 * never be compared.
 */
function gapIn(places: readonly Place[], dataBytes: number): string | undefined {
  let at = 0;
  for (const { name, startBytes, endBytes } of places) {
    if (startBytes !== at) return `tensor ${JSON.stringify(name)} does not follow the one before it`;
    at = endBytes;
  }
  return at === dataBytes ? undefined : `its tensors end after ${at} of ${dataBytes} bytes`;
}
