/**
 * Records with correct checksums that repeat one thing up to the size limit of their kind. All of
 * them are derived from the schema and the golden records, so a new field or kind of record is
 * covered without new code.
 */

import { createHash } from 'node:crypto';
import {
  encodeRecord,
  MESSAGE_OF_KIND,
  RECORD_BYTES_MAX_OF,
  type RecordKind,
} from '@holdfast/core/internal/format/index';
import { type FieldSchema, MESSAGES } from '@holdfast/wire';
import { GOLDEN_VALUES } from '../golden/values.ts';

export interface Bomb {
  readonly kind: RecordKind;
  /** What the record repeats, and where. */
  readonly name: string;
  readonly make: () => Uint8Array;
}

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
type JsonObject = { [name: string]: Json };

const CHECKSUM_END = 85;
/** Placeholder for the filler in the JSON of a record. */
const PLACE = '@filler@';
/** Sorts after every name of the schema. */
const UNKNOWN = 'zzz';
/** Number of values with different names. A record reaches its memory limit before. */
const COUNTED_MAX = 300_000;
/** More than the limit of a string or name. */
const STRING_ROOM = 5 * 1024 * 1024;
const CHUNK_CHARS = 4096;

/** Values of each type, to be repeated between brackets. */
const REPEATED_VALUES: Readonly<Record<string, string>> = {
  lists: '[]',
  objects: '{}',
  'lists in lists': '[[[[]]]]',
  'lists of one': '[0]',
  'objects of one': '{"a":1}',
  numbers: '0',
  'long numbers': '1.7976931348623157e+308',
  strings: '""',
  'strings of one': '"a"',
  'escaped strings': '"\\u0001"',
  'other strings': '"\u{10ffff}"',
};

/** Values that differ from each other: each gets a number. */
const COUNTED_VALUES: Readonly<Record<string, (digits: string) => string>> = {
  'objects with names of their own': (digits) => `{"u${digits}":0}`,
  'objects with two names of their own': (digits) => `{"u${digits}":0,"v${digits}":{}}`,
};

type Values = Readonly<Record<string, string | ((digits: string) => string)>>;
const ALL_VALUES: Values = { ...REPEATED_VALUES, ...COUNTED_VALUES };
const WORST_VALUES: Values = { objects: '{}', 'escaped strings': '"\\u0001"' };

type Fillers = Readonly<Record<string, string>>;
const STRING_FILLERS: Fillers = {
  ASCII: 'a',
  'characters of three bytes': '世',
  escapes: '\\u0001',
  quotes: '\\"',
};
const WORST_FILLERS: Fillers = { escapes: '\\u0001' };

/** A complete example of each kind of record that is written. */
function exampleOf(kind: RecordKind): JsonObject {
  const example = Object.values(GOLDEN_VALUES).find((each) => each.kind === kind);
  if (example === undefined) throw new Error(`there is no golden record of kind ${kind}`);
  const { bytes } = encodeRecord(kind, example.value);
  return JSON.parse(`{${Buffer.from(bytes.subarray(CHECKSUM_END + 1)).toString()}`) as JsonObject;
}

/** Kinds with the largest records come first: fields that all messages share are tried in them. */
const KINDS = (Object.keys(MESSAGE_OF_KIND) as RecordKind[]).sort(
  (a, b) => RECORD_BYTES_MAX_OF[b] - RECORD_BYTES_MAX_OF[a],
);

/** For each kind of record: unknown members. For each field of each message: a repetition of it. */
export function allBombs(): Bomb[] {
  const bombs: Bomb[] = [];
  const seen = new Set<string>();
  for (const kind of KINDS) {
    const add: Add = (name, json, filler) => {
      bombs.push({ kind, name, make: () => sealed(kind, json, filler) });
    };
    const visit: Visit = (message, value, around) => {
      if (seen.has(message)) return;
      seen.add(message);
      for (const field of MESSAGES[message] ?? []) addField({ message, field, value, around }, add, visit);
    };
    const example = exampleOf(kind);
    // All kinds skip unknown members by the same code, so one kind tries all that they may hold.
    const unknown = kind === KINDS[0] ? [ALL_VALUES, STRING_FILLERS] : [WORST_VALUES, WORST_FILLERS];
    addUnknown(MESSAGE_OF_KIND[kind], example, unknown as [Values, Fillers], add);
    visit(MESSAGE_OF_KIND[kind], example, (inner) => inner as JsonObject);
  }
  return bombs;
}

type Around = (inner: Json) => JsonObject;
type Add = (name: string, json: JsonObject, filler: Filler) => void;
type Visit = (message: string, value: JsonObject, around: Around) => void;
interface Filler {
  /** Text to repeat, or a function that makes the text for each number. */
  readonly text: string | ((digits: string) => string);
  readonly separator: ',' | '';
  /**
   * The text stands between the quotes of a string. Otherwise it replaces an element or a member.
   */
  readonly isInString?: boolean;
}

function addUnknown(
  message: string,
  value: JsonObject,
  [values, fillers]: readonly [Values, Fillers],
  add: Add,
): void {
  const holding = (json: Json): JsonObject => ({ ...value, [UNKNOWN]: json });
  const member = `an unknown member of ${message}`;
  for (const [name, text] of Object.entries(values))
    add(`${name} in ${member}`, holding([PLACE]), { text, separator: ',' });
  for (const [name, text] of Object.entries(fillers))
    add(`${name} in ${member}`, holding(PLACE), { text, separator: '', isInString: true });
  add(`brackets in ${member}`, holding([PLACE]), { text: '[', separator: '' });
  const text = (digits: string) => `"${UNKNOWN}${digits}":0`;
  add(`unknown members of ${message}`, { ...value, [PLACE]: 0 }, { text, separator: ',' });
}

interface Spot {
  readonly message: string;
  readonly field: FieldSchema;
  /** An example of the message. */
  readonly value: JsonObject;
  /** Makes the whole record with another such message in it. */
  readonly around: Around;
}

function addField({ message, field, value, around }: Spot, add: Add, visit: Visit): void {
  const place = `${message}.${field.name}`;
  const holding = (json: Json) => around({ ...value, [field.name]: json });
  const sample = sampleOf(field, value[field.name]);
  if (field.mapKey !== undefined) {
    const isNumber = field.mapKey === 'uint32';
    const text = (digits: string) => `"${isNumber ? `1${digits}` : digits}":${JSON.stringify(sample)}`;
    add(`entries of ${place}`, holding({ [PLACE]: 0 }), { text, separator: ',' });
  } else if (field.repeated) {
    // The smallest elements. `addStrangers` repeats complete ones.
    const element = field.kind === 'message' ? {} : sample;
    add(`elements of ${place}`, holding([PLACE]), { text: canonical(element), separator: ',' });
  }
  if (field.kind === 'message') {
    const inner = (json: Json): Json => (field.repeated ? [json] : json);
    visit(field.type, sample as JsonObject, (json) => holding(inner(json)));
    if (field.repeated) addStrangers(place, sample as JsonObject, holding, add);
  } else if (field.type === 'string' || field.type === 'bytes') {
    const [name, text] = field.type === 'bytes' ? ['base64', 'AAAA'] : ['characters of three bytes', '世'];
    const whole = field.mapKey !== undefined ? { a: PLACE } : field.repeated ? [PLACE] : PLACE;
    add(`${name} in ${place}`, holding(whole), { text, separator: '', isInString: true });
  }
}

/** Elements that each have an unknown member with a different name. */
function addStrangers(
  place: string,
  sample: JsonObject,
  holding: (json: Json) => JsonObject,
  add: Add,
): void {
  const start = canonical(sample).slice(0, -1);
  const comma = start === '{' ? '' : ',';
  const text = (digits: string) => `${start}${comma}"${UNKNOWN}${digits}":0}`;
  add(`elements of ${place} with unknown members`, holding([PLACE]), { text, separator: ',' });
}

/** The value in the example, or the smallest JSON value of the type. */
function sampleOf(field: FieldSchema, found: Json | undefined): Json {
  if (field.mapKey !== undefined)
    return Object.values((found ?? {}) as JsonObject)[0] ?? (field.type === 'string' ? '' : 0);
  const first = Array.isArray(found) ? found[0] : found;
  if (first !== undefined) return first;
  return field.kind === 'message' ? {} : '';
}

/**
 * Names in the order that the format requires. `format` comes first in a record, and nowhere else.
 */
function canonical(json: Json): string {
  if (Array.isArray(json)) return `[${json.map(canonical).join(',')}]`;
  if (typeof json !== 'object' || json === null) return JSON.stringify(json);
  const rank = (name: string) => (name === 'format' ? '' : name === PLACE ? UNKNOWN : name);
  const names = Object.keys(json).sort((a, b) => (rank(a) < rank(b) ? -1 : 1));
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(json[name] as Json)}`).join(',')}}`;
}

/** The record with its filler, as large as its kind may be, and with a correct checksum. */
function sealed(kind: RecordKind, json: JsonObject, filler: Filler): Uint8Array {
  const [start = '', end = ''] = splitAtPlace(canonical(json), filler);
  const head = Buffer.from(`,${start.slice(1)}`);
  const tail = Buffer.from(`${end}\n`);
  const most = filler.isInString ? STRING_ROOM : Number.POSITIVE_INFINITY;
  const room = Math.min(most, RECORD_BYTES_MAX_OF[kind] - CHECKSUM_END - head.length - tail.length);
  const middle =
    typeof filler.text === 'string'
      ? repeated(filler.text, filler.separator, room)
      : counted(filler.text, room);
  const body = Buffer.concat([head, middle, tail]);
  const digest = createHash('sha256').update(body).digest('hex');
  return Buffer.concat([Buffer.from(`{"checksum":"sha256:${digest}"`), body]);
}

function splitAtPlace(text: string, filler: Filler): string[] {
  const quoted = JSON.stringify(PLACE);
  if (text.includes(`${quoted}:0`)) return text.split(`${quoted}:0`);
  return text.split(filler.isInString ? PLACE : quoted);
}

function repeated(text: string, separator: string, room: number): Buffer {
  const unit = Buffer.from(`${text}${separator}`);
  const count = Math.floor((room + separator.length) / unit.length);
  return Buffer.alloc(count * unit.length, unit).subarray(0, count * unit.length - separator.length);
}

function counted(text: (digits: string) => string, room: number): Buffer {
  const chunks: Buffer[] = [];
  let chunk = '';
  let sizeBytes = 0;
  for (let number = 0; number < COUNTED_MAX; number++) {
    chunk += `${number === 0 ? '' : ','}${text(String(number).padStart(7, '0'))}`;
    if (chunk.length < CHUNK_CHARS && number + 1 < COUNTED_MAX) continue;
    const bytes = Buffer.from(chunk);
    if (sizeBytes + bytes.length > room) break;
    chunks.push(bytes);
    sizeBytes += bytes.length;
    chunk = '';
  }
  return Buffer.concat(chunks);
}
