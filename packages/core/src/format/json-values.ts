/** Values ⇄ canonical JSON, along the schema. Knows nothing of files, checksums and keys. */

import { type FieldSchema, MESSAGES } from '@holdfast/wire';
import { FIELD_RULES, MESSAGE_RULES, type Rule } from './record-rules.ts';
import { isUint32, numberToJson, type ScalarCodec, scalarCodec, stringToJson } from './scalars.ts';

/** Arrays and objects within each other, at most, the outermost included. The records themselves need 6. */
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

/** A field with all that the walk needs at hand: a manifest has hundreds of thousands of values. */
interface FieldPlan {
  readonly name: string;
  readonly shape: 'one' | 'list' | 'map';
  readonly mapKey: FieldSchema['mapKey'];
  readonly isRequired: boolean;
  /** Either the message that it holds, or how its scalars are written. */
  readonly type: string;
  readonly codec: ScalarCodec | undefined;
  readonly rule: Rule | undefined;
}

interface MessagePlan {
  readonly fields: ReadonlyMap<string, FieldPlan>;
  /** By name, in the order of the JSON. */
  readonly sorted: readonly FieldPlan[];
  readonly rule: (typeof MESSAGE_RULES)[string] | undefined;
}

function planField(message: string, field: FieldSchema): FieldPlan {
  return {
    name: field.name,
    shape: field.mapKey !== undefined ? 'map' : field.repeated === true ? 'list' : 'one',
    mapKey: field.mapKey,
    isRequired: field.required === true,
    type: field.type,
    codec: field.kind === 'message' ? undefined : scalarCodec(field),
    rule: FIELD_RULES[`${message}.${field.name}`],
  };
}

const PLANS: ReadonlyMap<string, MessagePlan> = new Map(
  Object.entries(MESSAGES).map(([message, schema]) => {
    const fields = new Map(schema.map((field) => [field.name, planField(message, field)]));
    const sorted = [...fields.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
    return [message, { fields, sorted, rule: MESSAGE_RULES[message] }];
  }),
);

function planOf(message: string): MessagePlan {
  const plan = PLANS.get(message);
  if (plan === undefined) throw new Error(`the schema has no message ${message}`);
  return plan;
}

function isObject(value: unknown): value is JsonObject {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array)
  );
}

/** Either may be empty. */
function joined(path: string, name: string): string {
  if (name === '') return path;
  return path === '' ? name : `${path}.${name}`;
}

function assertMessageRule(plan: MessagePlan, value: JsonObject, path: string): void {
  const { rule } = plan;
  if (rule === undefined || rule.holds(value)) return;
  throw new ValueProblem(joined(path, rule.field), rule.accepted, value[rule.field]);
}

/**
 * JSON text of a message: keys sorted by UTF-16 code units, defaults left out, no white space. Properties that the schema does not know
 * are taken to be JSON values that a newer Holdfast wrote. `levels`: how many more `{` and `[` may lie within each other.
 */
export function messageToJson(message: string, value: unknown, path: string, levels: number): string {
  if (!isObject(value)) throw new ValueProblem(path, 'an object', value);
  assertLevel(levels, path);
  const plan = planOf(message);
  const unknown = Object.keys(value).filter((key) => !plan.fields.has(key) && value[key] !== undefined);
  const members: string[] = [];
  if (unknown.length === 0) {
    for (const field of plan.sorted) {
      const text = fieldToJson(field, value[field.name], path, levels - 1);
      if (text !== undefined) members.push(`"${field.name}":${text}`);
    }
  } else {
    for (const key of [...plan.fields.keys(), ...unknown].sort()) {
      const field = plan.fields.get(key);
      const text = field
        ? fieldToJson(field, value[key], path, levels - 1)
        : rawToJson(value[key], joined(path, key), levels - 1);
      if (text !== undefined) members.push(`${keyToJson(key, path)}:${text}`);
    }
  }
  assertMessageRule(plan, value, path);
  return `{${members.join(',')}}`;
}

/** `undefined`: the field has its default and is left out. A value that is not given is the default. */
function fieldToJson(field: FieldPlan, value: unknown, path: string, levels: number): string | undefined {
  if (field.shape === 'map')
    return value === undefined ? undefined : mapToJson(field, value, joined(path, field.name), levels);
  if (field.shape === 'list')
    return value === undefined ? undefined : listToJson(field, value, joined(path, field.name), levels);
  const { codec } = field;
  if (codec !== undefined) {
    const given = value === undefined ? codec.default() : value;
    const text = scalarToJson(field, codec, given, path, field.name);
    return codec.isDefault(given) ? undefined : text;
  }
  if (value === undefined && !field.isRequired) return undefined;
  return messageToJson(field.type, value, joined(path, field.name), levels);
}

function listToJson(field: FieldPlan, value: unknown, path: string, levels: number): string | undefined {
  if (!Array.isArray(value)) throw new ValueProblem(path, 'an array', value);
  if (value.length === 0) return undefined;
  assertLevel(levels, path);
  const { codec } = field;
  const elements = Array.from(value, (element: unknown, index) => {
    if (codec !== undefined) return scalarToJson(field, codec, element, `${path}[${index}]`, '');
    return messageToJson(field.type, element, `${path}[${index}]`, levels - 1);
  });
  return `[${elements.join(',')}]`;
}

function mapToJson(field: FieldPlan, value: unknown, path: string, levels: number): string | undefined {
  if (!isObject(value)) throw new ValueProblem(path, 'an object', value);
  const keys = Object.keys(value).sort();
  if (keys.length === 0) return undefined;
  assertLevel(levels, path);
  const members = keys.map((key) => {
    assertMapKey(field, key, path);
    const text =
      field.codec !== undefined
        ? scalarToJson(field, field.codec, value[key], path, key)
        : messageToJson(field.type, value[key], joined(path, key), levels - 1);
    return `${keyToJson(key, path)}:${text}`;
  });
  return `{${members.join(',')}}`;
}

/** `name`: of the field or map key below `path`; the two are joined only when something is wrong. */
function scalarToJson(
  field: FieldPlan,
  codec: ScalarCodec,
  value: unknown,
  path: string,
  name: string,
): string {
  const text = codec.toJson(value);
  if (text === undefined) throw new ValueProblem(joined(path, name), codec.accepted, value);
  assertRule(field, value, path, name);
  return text;
}

function keyToJson(key: string, path: string): string {
  const text = stringToJson(key);
  if (text === undefined) throw new ValueProblem(joined(path, key), 'a key that UTF-8 can express', key);
  return text;
}

function assertMapKey(field: FieldPlan, key: string, path: string): void {
  if (field.mapKey !== 'uint32') return;
  const isCanonical = isUint32(Number(key)) && String(Number(key)) === key;
  if (!isCanonical)
    throw new ValueProblem(
      joined(path, key),
      'below a key that is a whole number from 0 to 4294967295 in decimal digits',
      key,
    );
}

function assertLevel(levels: number, path: string): void {
  if (levels <= 0) throw new ValueProblem(path, `nested at most ${NESTING_MAX} levels deep`, 'nested deeper');
}

function rawToJson(value: unknown, path: string, levels: number): string {
  if (value === null || typeof value === 'boolean') return String(value);
  if (Array.isArray(value)) {
    assertLevel(levels, path);
    return `[${Array.from(value, (element, index) => rawToJson(element, `${path}[${index}]`, levels - 1)).join(',')}]`;
  }
  if (isObject(value)) {
    assertLevel(levels, path);
    const members = Object.keys(value)
      .sort()
      .map((key) => `${keyToJson(key, path)}:${rawToJson(value[key], joined(path, key), levels - 1)}`);
    return `{${members.join(',')}}`;
  }
  let text: string | undefined;
  if (typeof value === 'number') text = numberToJson(value);
  if (typeof value === 'string') text = stringToJson(value);
  if (text === undefined) throw new ValueProblem(path, 'a JSON value, or it must not be there', value);
  return text;
}

/** Absent fields get their defaults, absent messages stay away, and what the schema does not know stays as it is. */
export function messageFromJson(message: string, json: unknown, path: string): Record<string, unknown> {
  if (!isObject(json)) throw new ValueProblem(path, 'an object', json);
  const plan = planOf(message);
  const value: Record<string, unknown> = {};
  for (const field of plan.fields.values()) {
    const decoded = fieldFromJson(
      field,
      Object.hasOwn(json, field.name) ? json[field.name] : undefined,
      path,
    );
    if (decoded !== undefined) value[field.name] = decoded;
  }
  assertMessageRule(plan, value, path);
  for (const key of Object.keys(json)) {
    if (!plan.fields.has(key)) setOwn(value, key, json[key]);
  }
  return value;
}

/** `undefined` (which JSON does not have): the field is absent. */
function fieldFromJson(field: FieldPlan, json: unknown, path: string): unknown {
  if (field.shape === 'map') return mapFromJson(field, json, joined(path, field.name));
  if (field.shape === 'list') return listFromJson(field, json, joined(path, field.name));
  const { codec } = field;
  if (codec !== undefined)
    return json === undefined
      ? defaultOf(field, codec, path)
      : scalarFromJson(field, codec, json, path, field.name);
  if (json === undefined && !field.isRequired) return undefined;
  return messageFromJson(field.type, json, joined(path, field.name));
}

function listFromJson(field: FieldPlan, json: unknown, path: string): unknown[] {
  if (json === undefined) return [];
  if (!Array.isArray(json)) throw new ValueProblem(path, 'an array', json);
  const { codec } = field;
  return json.map((element: unknown, index) => {
    if (codec !== undefined) return scalarFromJson(field, codec, element, `${path}[${index}]`, '');
    return messageFromJson(field.type, element, `${path}[${index}]`);
  });
}

function mapFromJson(field: FieldPlan, json: unknown, path: string): Record<string, unknown> {
  // Without a prototype, `map['constructor']` is what the record says, which is mostly nothing.
  const map: Record<string, unknown> = Object.create(null);
  if (json === undefined) return map;
  if (!isObject(json)) throw new ValueProblem(path, 'an object', json);
  for (const key of Object.keys(json)) {
    assertMapKey(field, key, path);
    map[key] =
      field.codec !== undefined
        ? scalarFromJson(field, field.codec, json[key], path, key)
        : messageFromJson(field.type, json[key], joined(path, key));
  }
  return map;
}

function scalarFromJson(
  field: FieldPlan,
  codec: ScalarCodec,
  json: unknown,
  path: string,
  name: string,
): unknown {
  const value = codec.fromJson(json);
  if (value === undefined) throw new ValueProblem(joined(path, name), codec.accepted, json);
  assertRule(field, value, path, name);
  return value;
}

/** A default may break a rule: an absent seq is 0, and no seq is. */
function defaultOf(field: FieldPlan, codec: ScalarCodec, path: string): unknown {
  const value = codec.default();
  assertRule(field, value, path, field.name);
  return value;
}

function assertRule(field: FieldPlan, value: unknown, path: string, name: string): void {
  const { rule } = field;
  if (rule !== undefined && !rule.holds(value))
    throw new ValueProblem(joined(path, name), rule.accepted, value);
}

/** Plain assignment would take the key `__proto__` for the prototype. */
function setOwn(object: object, key: string, value: unknown): void {
  Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
}
