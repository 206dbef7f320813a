/**
 * Values → canonical JSON, along the schema, piece by piece into bytes. Observes the limits of the
 * reader.
 */

import {
  BASE64_CHARS_MAX,
  COST,
  MemoryBudget,
  NESTING_MAX,
  STRING_BYTES_MAX,
  stringCost,
  UNKNOWN_MEMBERS_MAX,
} from './limits.ts';
import {
  assertCount,
  assertMapKey,
  assertMessageRule,
  assertRule,
  type FieldPlan,
  isObject,
  type JsonObject,
  type MessagePlan,
  planOf,
} from './message-plans.ts';
import { numberToJson, type ScalarCodec, stringToJson } from './scalars.ts';
import { ValuePath, ValueProblem } from './value-problem.ts';

const CHUNK_CHARS = 64 * 1024;

export class MessageWriter {
  readonly path = new ValuePath();
  readonly budget = new MemoryBudget();
  readonly #bytesMax: number;
  readonly #chunks: Buffer[] = [];
  #sizeBytes: number;
  #text = '';
  #depth: number;
  #isFirst = true;

  /**
   * `bytesBefore`: bytes of the record before this output. `depth`: number of objects already open.
   */
  constructor(options: { bytesMax: number; bytesBefore: number; depth: number }) {
    this.#sizeBytes = options.bytesBefore;
    this.#bytesMax = options.bytesMax;
    this.#depth = options.depth;
  }

  text(piece: string): void {
    this.#text += piece;
    if (this.#text.length >= CHUNK_CHARS) this.#flush();
  }

  open(bracket: '[' | '{'): void {
    if (++this.#depth > NESTING_MAX)
      throw new ValueProblem(this.path.text, `nested at most ${NESTING_MAX} levels deep`, 'nested deeper');
    this.text(bracket);
    this.#isFirst = true;
  }

  close(bracket: ']' | '}'): void {
    this.#depth--;
    this.text(bracket);
    this.#isFirst = false;
  }

  /** Writes the comma before an element or member, except the first. */
  separate(): void {
    if (!this.#isFirst) this.text(',');
    this.#isFirst = false;
  }

  finish(): Uint8Array {
    this.#flush();
    return Buffer.concat(this.#chunks);
  }

  #flush(): void {
    const chunk = Buffer.from(this.#text);
    this.#text = '';
    this.#chunks.push(chunk);
    this.#sizeBytes += chunk.length;
    if (this.#sizeBytes > this.#bytesMax)
      throw new ValueProblem('the record', `at most ${this.#bytesMax} bytes`, 'larger');
  }
}

/**
 * JSON text of a message: keys sorted by UTF-16 code units, defaults omitted, no white space.
 * Properties unknown to the schema are treated as JSON values that a newer Holdfast wrote.
 */
export function writeMessage(writer: MessageWriter, message: string, value: unknown): void {
  if (!isObject(value)) throw new ValueProblem(writer.path.text, 'an object', value);
  writer.open('{');
  writeMembers(writer, planOf(message), value);
  writer.close('}');
}

/** The members of a record without its braces: its format comes before them. */
export function writeRecordMembers(writer: MessageWriter, message: string, value: JsonObject): void {
  writeMembers(writer, planOf(message), value);
}

function writeMembers(writer: MessageWriter, plan: MessagePlan, value: JsonObject): void {
  writer.budget.charge(plan.cost);
  const unknown = Object.keys(value).filter((key) => !plan.fields.has(key) && value[key] !== undefined);
  if (unknown.length > UNKNOWN_MEMBERS_MAX)
    throw new ValueProblem(
      writer.path.text,
      `an object of at most ${UNKNOWN_MEMBERS_MAX} unknown members`,
      'larger',
    );
  if (unknown.length === 0) for (const field of plan.sorted) writeField(writer, field, value[field.name]);
  else {
    for (const key of [...plan.fields.keys(), ...unknown].sort()) {
      const field = plan.fields.get(key);
      if (field !== undefined) writeField(writer, field, value[key]);
      else writeUnknownMember(writer, key, value[key]);
    }
  }
  assertMessageRule(plan, value, writer.path);
}

/** An absent value is the default, and a default is omitted. */
function writeField(writer: MessageWriter, field: FieldPlan, value: unknown): void {
  const { codec, name, shape } = field;
  writer.path.enter(name);
  if (shape === 'map') writeMap(writer, field, value);
  else if (shape === 'list') writeList(writer, field, value);
  else if (codec !== undefined) {
    const given = value === undefined ? codec.default() : value;
    if (codec.isDefault(given)) assertRule(field, given, writer.path);
    else {
      startField(writer, name);
      writeScalar(writer, field, codec, given);
    }
  } else if (value !== undefined || field.isRequired) {
    startField(writer, name);
    writeMessage(writer, field.type, value);
  }
  writer.path.leave();
}

function startField(writer: MessageWriter, name: string): void {
  writer.separate();
  writer.text(`"${name}":`);
}

function writeList(writer: MessageWriter, field: FieldPlan, value: unknown): void {
  if (value === undefined) return;
  if (!Array.isArray(value)) throw new ValueProblem(writer.path.text, 'an array', value);
  if (value.length === 0) return;
  assertCount(field, value.length, writer.path);
  startField(writer, field.name);
  writer.open('[');
  writeElements(writer, value, (element) => writeValue(writer, field, element));
  writer.close(']');
}

function writeMap(writer: MessageWriter, field: FieldPlan, value: unknown): void {
  if (value === undefined) return;
  if (!isObject(value)) throw new ValueProblem(writer.path.text, 'an object', value);
  const keys = Object.keys(value).sort();
  if (keys.length === 0) return;
  assertCount(field, keys.length, writer.path);
  startField(writer, field.name);
  writer.open('{');
  for (const key of keys) {
    writer.path.enter(key);
    assertMapKey(field, key, writer.path);
    writer.budget.charge(COST.mapEntry);
    writeName(writer, key);
    writeValue(writer, field, value[key]);
    writer.path.leave();
  }
  writer.close('}');
}

function writeElements(
  writer: MessageWriter,
  list: readonly unknown[],
  write: (element: unknown) => void,
): void {
  if (list.length > 0) writer.budget.charge(COST.filledList);
  // `forEach` would skip holes.
  for (let index = 0; index < list.length; index++) {
    writer.budget.charge(COST.element);
    writer.path.enter(index);
    writer.separate();
    write(list[index]);
    writer.path.leave();
  }
}

/** Writes a list element or a map value. */
function writeValue(writer: MessageWriter, field: FieldPlan, value: unknown): void {
  if (field.codec === undefined) writeMessage(writer, field.type, value);
  else writeScalar(writer, field, field.codec, value);
}

function writeScalar(writer: MessageWriter, field: FieldPlan, codec: ScalarCodec, value: unknown): void {
  const text = codec.toJson(value);
  if (text === undefined) throw new ValueProblem(writer.path.text, codec.accepted, value);
  assertRule(field, value, writer.path);
  const isBytes = field.type === 'bytes';
  if (isBytes) writer.budget.charge(COST.bytes);
  writeScalarText(writer, text, isBytes ? BASE64_CHARS_MAX : STRING_BYTES_MAX);
}

/** `text`: JSON of a string, or a bare word. */
function writeScalarText(writer: MessageWriter, text: string, stringBytesMax: number): void {
  if (text.startsWith('"')) {
    const length = Buffer.byteLength(text) - 2;
    if (length > stringBytesMax)
      throw new ValueProblem(writer.path.text, `at most ${stringBytesMax} bytes`, `${length} bytes`);
    writer.budget.charge(stringCost(length, length + 2 === text.length && !text.includes('\\')));
  } else writer.budget.charge(COST.number);
  writer.text(text);
}

/** The name of a member that the schema does not know, or the key of a map. */
function writeName(writer: MessageWriter, name: string): void {
  const text = stringToJson(name);
  if (text === undefined) throw new ValueProblem(writer.path.text, 'a key that UTF-8 can express', name);
  writer.separate();
  writeScalarText(writer, text, STRING_BYTES_MAX);
  writer.text(':');
}

function writeUnknownMember(writer: MessageWriter, name: string, value: unknown): void {
  writer.path.enter(name);
  writer.budget.charge(COST.unknownMember);
  writeName(writer, name);
  writeAny(writer, value);
  writer.path.leave();
}

function writeAny(writer: MessageWriter, value: unknown): void {
  if (Array.isArray(value)) {
    writer.open('[');
    writer.budget.charge(COST.list);
    writeElements(writer, value, (element) => writeAny(writer, element));
    writer.close(']');
    return;
  }
  if (isObject(value)) {
    writeAnyObject(writer, value);
    return;
  }
  let text: string | undefined;
  if (value === null || typeof value === 'boolean') text = String(value);
  if (typeof value === 'number') text = numberToJson(value);
  if (typeof value === 'string') text = stringToJson(value);
  if (text === undefined) throw new ValueProblem(writer.path.text, 'a JSON value, or absent', value);
  writeScalarText(writer, text, STRING_BYTES_MAX);
}

function writeAnyObject(writer: MessageWriter, value: JsonObject): void {
  const names = Object.keys(value).sort();
  writer.open('{');
  writer.budget.charge(COST.object);
  if (names.length > UNKNOWN_MEMBERS_MAX)
    throw new ValueProblem(
      writer.path.text,
      `an object of at most ${UNKNOWN_MEMBERS_MAX} unknown members`,
      'larger',
    );
  for (const name of names) writeUnknownMember(writer, name, value[name]);
  writer.close('}');
}
