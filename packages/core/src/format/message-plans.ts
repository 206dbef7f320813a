/** Precomputed facts for reading and writing a message: its fields, their rules and their costs. */

import { type FieldSchema, MESSAGES } from '@holdfast/wire';
import { COST } from './limits.ts';
import { COUNTS_MAX, FIELD_RULES, type FieldRule, MESSAGE_RULES, type MessageRule } from './record-rules.ts';
import { isUint32, type ScalarCodec, scalarCodec } from './scalars.ts';
import { type ValuePath, ValueProblem } from './value-problem.ts';

export type JsonObject = Readonly<Record<string, unknown>>;

/** A field with everything needed to process it: a manifest has hundreds of thousands of values. */
export interface FieldPlan {
  readonly name: string;
  /** The name in JSON, its quotes and colon included. */
  readonly nameBytes: Uint8Array;
  /** Its position in the schema. */
  readonly index: number;
  readonly shape: 'one' | 'list' | 'map';
  readonly mapKey: FieldSchema['mapKey'];
  readonly isRequired: boolean;
  /** The message it holds, or the name of its scalar type. */
  readonly type: string;
  readonly codec: ScalarCodec | undefined;
  readonly rule: FieldRule | undefined;
  /** Maximum number of list elements or map entries. */
  readonly countMax: number;
}

export interface MessagePlan {
  readonly fields: ReadonlyMap<string, FieldPlan>;
  /** By name, in the order of the JSON. */
  readonly sorted: readonly FieldPlan[];
  readonly rules: readonly MessageRule[];
  /** Cost of the message without the values of its fields. */
  readonly cost: number;
}

function planField(message: string, field: FieldSchema, index: number): FieldPlan {
  return {
    name: field.name,
    nameBytes: Buffer.from(`"${field.name}":`),
    index,
    shape: field.mapKey !== undefined ? 'map' : field.repeated === true ? 'list' : 'one',
    mapKey: field.mapKey,
    isRequired: field.required === true,
    type: field.type,
    codec: field.kind === 'message' ? undefined : scalarCodec(field),
    rule: FIELD_RULES[`${message}.${field.name}`],
    countMax: COUNTS_MAX[`${message}.${field.name}`] ?? Number.POSITIVE_INFINITY,
  };
}

const FIELD_COST = { one: COST.field, list: COST.field + COST.list, map: COST.field + COST.map } as const;

const PLANS: ReadonlyMap<string, MessagePlan> = new Map(
  Object.entries(MESSAGES).map(([message, schema]) => {
    const fields = new Map(schema.map((field, index) => [field.name, planField(message, field, index)]));
    const sorted = [...fields.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
    const cost = sorted.reduce((sum, { shape }) => sum + FIELD_COST[shape], COST.object as number);
    return [message, { fields, sorted, rules: MESSAGE_RULES[message] ?? [], cost }];
  }),
);

export function planOf(message: string): MessagePlan {
  const plan = PLANS.get(message);
  if (plan === undefined) throw new Error(`the schema has no message ${message}`);
  return plan;
}

export function isObject(value: unknown): value is JsonObject {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array)
  );
}

export function assertRule(field: FieldPlan, value: unknown, path: ValuePath): void {
  const { rule } = field;
  if (rule !== undefined && !rule.holds(value)) throw new ValueProblem(path.text, rule.accepted, value);
}

export function assertMessageRule(plan: MessagePlan, value: JsonObject, path: ValuePath): void {
  const rule = plan.rules.find((each) => !each.holds(value));
  if (rule === undefined) return;
  path.enter(rule.field);
  throw new ValueProblem(path.text, rule.accepted, value[rule.field]);
}

export function assertCount(field: FieldPlan, count: number, path: ValuePath): void {
  if (count <= field.countMax) return;
  throw new ValueProblem(path.text, `one of at most ${field.countMax} values`, 'one more');
}

/** Throws unless the key is valid for the map. `path` ends with the key. */
export function assertMapKey(field: FieldPlan, key: string, path: ValuePath): void {
  if (field.mapKey !== 'uint32') return;
  const isCanonical = isUint32(Number(key)) && String(Number(key)) === key;
  if (isCanonical) return;
  const accepted = 'below a key that is a whole number from 0 to 4294967295 in decimal digits';
  throw new ValueProblem(path.text, accepted, key);
}

/** Plain assignment of the key `__proto__` would set the prototype. */
export function setOwn(object: object, key: string, value: unknown): void {
  if (key !== '__proto__') (object as Record<string, unknown>)[key] = value;
  else Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
}
