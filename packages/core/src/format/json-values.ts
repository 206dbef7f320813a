/** Values ⇄ canonical JSON, along the schema. Knows nothing of files, checksums and keys. */

import { type FieldSchema, MESSAGES } from '@holdfast/wire';
import { FIELD_RULES, MESSAGE_RULES } from './record-rules.ts';
import { isUint32, numberToJson, scalarCodec, stringToJson } from './scalars.ts';

/** Arrays and objects within each other, at most. The records themselves need 6. */
export const NESTING_MAX = 32;

type JsonObject = Readonly<Record<string, unknown>>;

/** A value is not what the schema says. The caller turns it into its own kind of error. */
export class ValueProblem extends Error {
  readonly path: string;
  readonly accepted: string;
  readonly found: string;

  constructor(path: string, accepted: string, value: unknown) {
    const found = describe(value);
    super(`${path} is ${found}; it must be ${accepted}`);
    this.path = path;
    this.accepted = accepted;
    this.found = found;
  }
}

const DESCRIPTION_CHARS_MAX = 80;

function describe(value: unknown): string {
  if (value === undefined) return 'absent';
  if (value instanceof Uint8Array) return `${value.length} bytes`;
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'an array' : 'an object';
  const text =
    typeof value === 'string' ? JSON.stringify(value.slice(0, DESCRIPTION_CHARS_MAX + 1)) : String(value);
  return text.length > DESCRIPTION_CHARS_MAX ? `${text.slice(0, DESCRIPTION_CHARS_MAX)}…` : text;
}

const FIELDS: ReadonlyMap<string, ReadonlyMap<string, FieldSchema>> = new Map(
  Object.entries(MESSAGES).map(([message, fields]) => [
    message,
    new Map(fields.map((field) => [field.name, field])),
  ]),
);

function fieldsOf(message: string): ReadonlyMap<string, FieldSchema> {
  const fields = FIELDS.get(message);
  if (fields === undefined) throw new Error(`the schema has no message ${message}`);
  return fields;
}

function isObject(value: unknown): value is JsonObject {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array)
  );
}

function joined(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`;
}

function assertRule(message: string, field: FieldSchema, value: unknown, path: string): void {
  const rule = FIELD_RULES[`${message}.${field.name}`];
  if (rule !== undefined && !rule.holds(value)) throw new ValueProblem(path, rule.accepted, value);
}

function assertMessageRule(message: string, value: JsonObject, path: string): void {
  const rule = MESSAGE_RULES[message];
  if (rule !== undefined && !rule.holds(value))
    throw new ValueProblem(joined(path, rule.field), rule.accepted, value[rule.field]);
}

/**
 * JSON text of a message: keys sorted by UTF-16 code units, defaults left out, no white space. Properties that the schema does not know
 * are taken to be JSON values that a newer Holdfast wrote.
 */
export function messageToJson(message: string, value: unknown, path: string): string {
  if (!isObject(value)) throw new ValueProblem(path, 'an object', value);
  const fields = fieldsOf(message);
  const whole: Record<string, unknown> = {};
  for (const field of fields.values()) {
    const given = value[field.name];
    whole[field.name] = given === undefined ? defaultOf(field, joined(path, field.name)) : given;
  }
  const members: string[] = [];
  for (const key of Object.keys({ ...value, ...whole }).sort()) {
    const field = fields.get(key);
    const at = joined(path, key);
    const text =
      field === undefined ? rawMember(value[key], at) : fieldToJson(message, field, whole[key], at);
    if (text !== undefined) members.push(`${keyToJson(key, at)}:${text}`);
  }
  assertMessageRule(message, whole, path);
  return `{${members.join(',')}}`;
}

/** `undefined`: the field has its default and is left out. */
function fieldToJson(message: string, field: FieldSchema, value: unknown, path: string): string | undefined {
  if (field.mapKey !== undefined) return mapToJson(message, field, value, path);
  if (field.repeated === true) {
    if (!Array.isArray(value)) throw new ValueProblem(path, 'an array', value);
    if (value.length === 0) return undefined;
    return `[${Array.from(value, (element, index) => elementToJson(message, field, element, `${path}[${index}]`)).join(',')}]`;
  }
  if (value === undefined) return undefined;
  const text = elementToJson(message, field, value, path);
  return field.kind !== 'message' && scalarCodec(field).isDefault(value) ? undefined : text;
}

function mapToJson(message: string, field: FieldSchema, value: unknown, path: string): string | undefined {
  if (!isObject(value)) throw new ValueProblem(path, 'an object', value);
  const keys = Object.keys(value).sort();
  if (keys.length === 0) return undefined;
  const members = keys.map((key) => {
    const at = joined(path, key);
    assertMapKey(field, key, at);
    return `${keyToJson(key, at)}:${elementToJson(message, field, value[key], at)}`;
  });
  return `{${members.join(',')}}`;
}

function elementToJson(message: string, field: FieldSchema, value: unknown, path: string): string {
  if (field.kind === 'message') return messageToJson(field.type, value, path);
  const codec = scalarCodec(field);
  const text = codec.toJson(value);
  if (text === undefined) throw new ValueProblem(path, codec.accepted, value);
  assertRule(message, field, value, path);
  return text;
}

function keyToJson(key: string, path: string): string {
  const text = stringToJson(key);
  if (text === undefined) throw new ValueProblem(path, 'a key that UTF-8 can express', key);
  return text;
}

function assertMapKey(field: FieldSchema, key: string, path: string): void {
  if (field.mapKey !== 'uint32') return;
  const isCanonical = isUint32(Number(key)) && String(Number(key)) === key;
  if (!isCanonical)
    throw new ValueProblem(
      path,
      'below a key that is a whole number from 0 to 2^32 - 1 in decimal digits',
      key,
    );
}

function rawMember(value: unknown, path: string): string | undefined {
  return value === undefined ? undefined : rawToJson(value, path, NESTING_MAX);
}

function rawToJson(value: unknown, path: string, depthLeft: number): string {
  const accepted = `a JSON value with at most ${NESTING_MAX} levels`;
  if (depthLeft === 0) throw new ValueProblem(path, accepted, value);
  if (value === null || typeof value === 'boolean') return String(value);
  if (Array.isArray(value))
    return `[${Array.from(value, (element, index) => rawToJson(element, `${path}[${index}]`, depthLeft - 1)).join(',')}]`;
  if (isObject(value)) {
    const members = Object.keys(value)
      .sort()
      .map((key) => `${keyToJson(key, path)}:${rawToJson(value[key], joined(path, key), depthLeft - 1)}`);
    return `{${members.join(',')}}`;
  }
  let text: string | undefined;
  if (typeof value === 'number') text = numberToJson(value);
  if (typeof value === 'string') text = stringToJson(value);
  if (text === undefined) throw new ValueProblem(path, accepted, value);
  return text;
}

/** Absent fields get their defaults, absent messages stay away, and what the schema does not know stays as it is. */
export function messageFromJson(message: string, json: unknown, path: string): Record<string, unknown> {
  if (!isObject(json)) throw new ValueProblem(path, 'an object', json);
  const fields = fieldsOf(message);
  const value: Record<string, unknown> = {};
  for (const field of fields.values()) {
    const at = joined(path, field.name);
    const decoded = Object.hasOwn(json, field.name)
      ? fieldFromJson(message, field, json[field.name], at)
      : defaultOf(field, at);
    if (decoded === undefined) continue;
    const isSingleScalar = field.kind !== 'message' && field.repeated !== true && field.mapKey === undefined;
    if (isSingleScalar) assertRule(message, field, decoded, at);
    value[field.name] = decoded;
  }
  assertMessageRule(message, value, path);
  for (const key of Object.keys(json)) {
    if (!fields.has(key)) setOwn(value, key, json[key]);
  }
  return value;
}

function fieldFromJson(message: string, field: FieldSchema, json: unknown, path: string): unknown {
  if (field.mapKey !== undefined) {
    if (!isObject(json)) throw new ValueProblem(path, 'an object', json);
    // Without a prototype, `map['constructor']` is what the record says, which is mostly nothing.
    const map: Record<string, unknown> = Object.create(null);
    for (const key of Object.keys(json)) {
      const at = joined(path, key);
      assertMapKey(field, key, at);
      map[key] = elementFromJson(message, field, json[key], at);
    }
    return map;
  }
  if (field.repeated !== true) return elementFromJson(message, field, json, path);
  if (!Array.isArray(json)) throw new ValueProblem(path, 'an array', json);
  return json.map((element: unknown, index) => elementFromJson(message, field, element, `${path}[${index}]`));
}

function elementFromJson(message: string, field: FieldSchema, json: unknown, path: string): unknown {
  if (field.kind === 'message') return messageFromJson(field.type, json, path);
  const codec = scalarCodec(field);
  const value = codec.fromJson(json);
  if (value === undefined) throw new ValueProblem(path, codec.accepted, json);
  assertRule(message, field, value, path);
  return value;
}

function defaultOf(field: FieldSchema, path: string): unknown {
  if (field.mapKey !== undefined) return Object.create(null);
  if (field.repeated === true) return [];
  if (field.kind !== 'message') return scalarCodec(field).default();
  if (field.required === true) throw new ValueProblem(path, 'an object', undefined);
  return undefined;
}

/** Plain assignment would take the key `__proto__` for the prototype. */
function setOwn(object: object, key: string, value: unknown): void {
  Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
}
