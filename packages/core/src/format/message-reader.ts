/**
 * Canonical JSON → values, along the schema, in one pass. Knows nothing of files, checksums and
 * keys.
 *
 * No function here is a closure. An error keeps the functions on its stack alive; a closure would
 * also keep alive the values created so far.
 */

import { BYTE, JsonProblem, type JsonReader } from './json-reader.ts';
import { BASE64_CHARS_MAX, COST, STRING_BYTES_MAX, UNKNOWN_MEMBERS_MAX } from './limits.ts';
import {
  assertCount,
  assertMapKey,
  assertMessageRule,
  assertRule,
  type FieldPlan,
  type MessagePlan,
  planOf,
  setOwn,
} from './message-plans.ts';
import type { ScalarCodec } from './scalars.ts';
import { ValueProblem } from './value-problem.ts';

type Message = Record<string, unknown>;

/**
 * Absent fields get their defaults, absent optional messages stay absent, and members unknown to
 * the schema are kept unchanged.
 */
export function readMessage(reader: JsonReader, message: string): Message {
  openAs(reader, BYTE.openBrace, 'an object');
  const plan = planOf(message);
  reader.budget.charge(plan.cost);
  const members = noMembersYet(plan);
  if (reader.next !== BYTE.closeBrace) readMembers(reader, plan, members);
  reader.close(BYTE.closeBrace);
  return toMessage(reader, plan, members);
}

/**
 * The members of a record after its checksum and its format: the rest of the outermost object.
 * Those two were read already, and may not appear again.
 */
export function readRecordMembers(reader: JsonReader, message: string, format: Message): Message {
  const plan = planOf(message);
  reader.budget.charge(plan.cost);
  const members = noMembersYet(plan);
  if (reader.takeIf(BYTE.comma)) readMembers(reader, plan, members, RECORD_START);
  reader.close(BYTE.closeBrace);
  return toMessage(reader, plan, members, format);
}

const RECORD_START: ReadonlySet<string> = new Set(['checksum', 'format']);

/** Members that were read: the fields of the schema in its order, and the others. */
interface Members {
  readonly known: unknown[];
  readonly unknown: [name: string, value: unknown][];
}

function noMembersYet(plan: MessagePlan): Members {
  return { known: new Array(plan.sorted.length), unknown: [] };
}

/**
 * Reads up to the closing brace, which is not consumed. `refused`: names that may not appear here.
 */
function readMembers(
  reader: JsonReader,
  plan: MessagePlan,
  members: Members,
  refused?: ReadonlySet<string>,
): void {
  let before: string | undefined;
  let candidate = 0;
  do {
    const { at } = reader;
    let field: FieldPlan | undefined;
    // Names are in order, so each field is checked once, and a known name never becomes a string.
    for (let each = candidate; field === undefined && each < plan.sorted.length; each++) {
      if (!reader.takeBytes((plan.sorted[each] as FieldPlan).nameBytes)) continue;
      field = plan.sorted[each] as FieldPlan;
      candidate = each + 1;
    }
    const name = field?.name ?? reader.name();
    if (refused?.has(name)) throw new JsonProblem(at, `no second ${name}`);
    reader.assertOrder(at, before, name);
    reader.path.enter(name);
    if (field !== undefined) members.known[field.index] = readField(reader, field);
    else members.unknown.push([name, readUnknown(reader, members.unknown.length + 1)]);
    reader.path.leave();
    before = name;
  } while (reader.takeIf(BYTE.comma));
}

function readUnknown(reader: JsonReader, count: number): unknown {
  reader.budget.charge(COST.unknownMember);
  if (count > UNKNOWN_MEMBERS_MAX)
    throw new ValueProblem(
      reader.path.text,
      `one of at most ${UNKNOWN_MEMBERS_MAX} unknown members`,
      'one more',
    );
  return readAny(reader);
}

/** Any JSON value, because a newer Holdfast may have written it. */
export function readAny(reader: JsonReader): unknown {
  if (reader.next === BYTE.openBracket) return readAnyList(reader);
  if (reader.next === BYTE.openBrace) return readAnyObject(reader);
  const { at } = reader;
  const value = reader.scalar(STRING_BYTES_MAX);
  const isJson =
    typeof value === 'string' ? value.isWellFormed() : typeof value !== 'number' || Number.isFinite(value);
  if (!isJson) throw new ValueProblem(reader.path.text, 'a JSON value, or absent', value);
  if (typeof value === 'number') reader.assertSpelling(at, value);
  return value;
}

function readAnyList(reader: JsonReader): unknown[] {
  const list: unknown[] = [];
  reader.open(BYTE.openBracket);
  reader.budget.charge(COST.list);
  if (reader.next !== BYTE.closeBracket) {
    startElements(reader);
    do {
      startElement(reader, list.length);
      list.push(readAny(reader));
      reader.path.leave();
    } while (reader.takeIf(BYTE.comma));
  }
  reader.close(BYTE.closeBracket);
  return list;
}

function readAnyObject(reader: JsonReader): Message {
  const value: Message = {};
  reader.open(BYTE.openBrace);
  reader.budget.charge(COST.object);
  if (reader.next !== BYTE.closeBrace) {
    let name: string | undefined;
    let count = 0;
    do {
      name = startMember(reader, name);
      setOwn(value, name, readUnknown(reader, ++count));
      reader.path.leave();
    } while (reader.takeIf(BYTE.comma));
  }
  reader.close(BYTE.closeBrace);
  return value;
}

/** The name of a member that the schema does not know, or the key of a map. */
function startMember(reader: JsonReader, before: string | undefined): string {
  const { at } = reader;
  const name = reader.name();
  reader.assertOrder(at, before, name);
  reader.path.enter(name);
  return name;
}

function startElements(reader: JsonReader): void {
  reader.budget.charge(COST.filledList);
}

function startElement(reader: JsonReader, index: number): void {
  reader.budget.charge(COST.element);
  reader.path.enter(index);
}

/** Sets fields in schema order, so that V8 gives all messages of a type the same hidden class. */
function toMessage(reader: JsonReader, plan: MessagePlan, members: Members, format?: Message): Message {
  const value: Message = format === undefined ? {} : { format };
  for (const field of plan.fields.values()) {
    const found = members.known[field.index] ?? absent(reader, field);
    if (found !== undefined) value[field.name] = found;
  }
  assertMessageRule(plan, value, reader.path);
  for (const [name, found] of members.unknown) setOwn(value, name, found);
  return value;
}

/** A default may break a rule: an absent seq is 0, which is not a valid seq. */
function absent(reader: JsonReader, field: FieldPlan): unknown {
  if (field.shape === 'list') return [];
  if (field.shape === 'map') return emptyMap();
  const { codec } = field;
  if (codec === undefined && !field.isRequired) return undefined;
  reader.path.enter(field.name);
  if (codec === undefined) throw new ValueProblem(reader.path.text, 'an object', undefined);
  const value = codec.default();
  assertRule(field, value, reader.path);
  reader.path.leave();
  return value;
}

/** Has no prototype, so `map['constructor']` is only defined if the record defines it. */
function emptyMap(): Message {
  return Object.create(null) as Message;
}

function readField(reader: JsonReader, field: FieldPlan): unknown {
  if (field.shape === 'map') return readMap(reader, field);
  if (field.shape === 'list') return readList(reader, field);
  const { codec } = field;
  if (codec === undefined) return readMessage(reader, field.type);
  const { at } = reader;
  const value = readScalar(reader, field, codec);
  if (codec.isDefault(value)) throw new JsonProblem(at, 'no default');
  return value;
}

function readList(reader: JsonReader, field: FieldPlan): unknown[] {
  const { at } = reader;
  const list: unknown[] = [];
  openAs(reader, BYTE.openBracket, 'an array');
  if (reader.next === BYTE.closeBracket) throw new JsonProblem(at, 'no empty list');
  startElements(reader);
  do {
    startElement(reader, list.length);
    assertCount(field, list.length + 1, reader.path);
    list.push(readValue(reader, field));
    reader.path.leave();
  } while (reader.takeIf(BYTE.comma));
  reader.close(BYTE.closeBracket);
  return list;
}

function readMap(reader: JsonReader, field: FieldPlan): Message {
  const { at } = reader;
  const map = emptyMap();
  openAs(reader, BYTE.openBrace, 'an object');
  if (reader.next === BYTE.closeBrace) throw new JsonProblem(at, 'no empty map');
  let key: string | undefined;
  let count = 0;
  do {
    key = startMember(reader, key);
    assertMapKey(field, key, reader.path);
    assertCount(field, ++count, reader.path);
    reader.budget.charge(COST.mapEntry);
    map[key] = readValue(reader, field);
    reader.path.leave();
  } while (reader.takeIf(BYTE.comma));
  reader.close(BYTE.closeBrace);
  return map;
}

/** An element of a list, or a value of a map. */
function readValue(reader: JsonReader, field: FieldPlan): unknown {
  if (field.codec === undefined) return readMessage(reader, field.type);
  return readScalar(reader, field, field.codec);
}

function readScalar(reader: JsonReader, field: FieldPlan, codec: ScalarCodec): unknown {
  const isBytes = field.type === 'bytes';
  if (isBytes) reader.budget.charge(COST.bytes);
  const { at } = reader;
  const json = reader.scalar(isBytes ? BASE64_CHARS_MAX : STRING_BYTES_MAX);
  const value = codec.fromJson(json);
  if (value === undefined) throw new ValueProblem(reader.path.text, codec.accepted, json);
  if (typeof json === 'number') reader.assertSpelling(at, json);
  assertRule(field, value, reader.path);
  return value;
}

/** `accepted`: what the bracket begins, in words. */
function openAs(reader: JsonReader, bracket: number, accepted: string): void {
  if (reader.next !== bracket) {
    const found = reader.scalar(STRING_BYTES_MAX);
    throw new ValueProblem(reader.path.text, accepted, found);
  }
  reader.open(bracket);
}
