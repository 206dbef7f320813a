/**
 * Reads a pickle of Python as inert data: nothing it names is looked up or called. A class becomes
 * its name, and an object or a call becomes a record of what it was made from. Protocols 2 to 5
 * (https://github.com/python/cpython/blob/main/Lib/pickletools.py); only the operations that
 * containers, numbers, strings and objects need. Pure.
 *
 * A pickle may be hostile: a few bytes can make a value of hundreds. So the memory of each value is
 * counted before it is made, and the number of operations is limited.
 */

/** They take less than a second. */
const OPERATIONS_MAX = 4_000_000;
/** For all values together, counted with the costs below. */
const MEMORY_MAX = 36 * 1024 * 1024;
/** Values that wait for an operation, and marks among them. Python writes items by the thousand. */
const WAITING_MAX = 250_000;
/** Limit for the names of a module and of its class together. */
const NAME_CHARS_MAX = 1000;

/** Bytes of memory counted for each value: at least what V8 allocates. */
const COST = {
  list: 48,
  /** The slot in a list that is made with all its elements. */
  slot: 8,
  /** The backing store that a list gets when it grows. */
  grown: 160,
  /** The slot in a list that grows. */
  element: 24,
  dictionary: 32,
  object: 48,
  /** In addition to its characters, of up to two bytes. */
  text: 40,
  /** In addition to its bytes, which are those of the pickle. */
  bytes: 200,
  number: 32,
  remembered: 16,
  /** A place that does not follow the one before it. */
  rememberedFar: 80,
} as const;

/** A dictionary, as its keys and values in turn. It takes less memory than a map. */
export class PickledDictionary {
  items: unknown[] = [];

  /** `undefined`: it has no such key. */
  get(key: string): unknown {
    for (let at = this.items.length - 2; at >= 0; at -= 2)
      if (this.items[at] === key) return this.items[at + 1];
    return undefined;
  }

  /** In the order in which they were set. A key may come twice, and then the last one counts. */
  *pairs(): Generator<readonly [key: unknown, value: unknown]> {
    for (let at = 0; at < this.items.length; at += 2) yield [this.items[at], this.items[at + 1]];
  }
}

/** What a name such as `torch.Size` stands for. */
export class PickledName {
  readonly name: string;

  constructor(module: string, name: string) {
    this.name = `${module}.${name}`;
  }
}

/** An object, or the result of a call. */
export class PickledObject {
  readonly of: unknown;
  /** A tuple. */
  readonly args: unknown;
  /** What `__setstate__` would receive; `undefined`: nothing. */
  state: unknown;

  constructor(of: unknown, args: unknown) {
    this.of = of;
    this.args = args;
  }
}

/** Something that is not in the pickle, such as the bytes of a tensor. */
export class PickledReference {
  readonly id: unknown;

  constructor(id: unknown) {
    this.id = id;
  }
}

/** Why the bytes are not read. */
export class PickleProblem extends Error {}

const ENDS_EARLY = 'it ends early';

/**
 * Lists, tuples and sets become arrays; whole numbers beyond 2^53 become bigints. Values may be
 * shared, and contain themselves. Throws `PickleProblem`.
 */
export function readPickle(bytes: Uint8Array): unknown {
  try {
    return new PickleReader(bytes).read();
  } catch (error) {
    // DataView reports a read past the end so.
    if (error instanceof RangeError) throw new PickleProblem(ENDS_EARLY);
    throw error;
  }
}

/**
 * Whether the bytes are a pickle without its end. Runs nothing that a pickle names, and takes up to
 * a second and some 36 MiB. False for a pickle, or another thing, that is not read so far.
 */
export function isTruncatedPickle(bytes: Uint8Array): boolean {
  try {
    readPickle(bytes);
  } catch (error) {
    if (error instanceof PickleProblem) return error.message === ENDS_EARLY;
    throw error;
  }
  return false;
}

type Operation = (reader: PickleReader) => void;

class PickleReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  readonly #memo: unknown[] = [];
  readonly #farMemo = new Map<number, unknown>();
  readonly #stack: unknown[] = [];
  /** Lengths of the stack at its marks. */
  readonly #marks: number[] = [];
  #leftBytes = MEMORY_MAX;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  read(): unknown {
    for (let count = 0; count < OPERATIONS_MAX; count += 1) {
      const code = this.u8();
      if (code === STOP) return this.pop();
      const operation = OPERATIONS.get(code);
      if (!operation) throw new PickleProblem(`it has the operation ${code}, which is not read`);
      operation(this);
    }
    throw new PickleProblem(`it has more than ${OPERATIONS_MAX} operations`);
  }

  u8(): number {
    this.#at += 1;
    return this.#view.getUint8(this.#at - 1);
  }

  u16(): number {
    this.#at += 2;
    return this.#view.getUint16(this.#at - 2, true);
  }

  u32(): number {
    this.#at += 4;
    return this.#view.getUint32(this.#at - 4, true);
  }

  i32(): number {
    this.#at += 4;
    return this.#view.getInt32(this.#at - 4, true);
  }

  u64(): number {
    this.#at += 8;
    return Number(this.#view.getBigUint64(this.#at - 8, true));
  }

  /** Big-endian, unlike all others. */
  double(): number {
    this.#at += 8;
    return this.#view.getFloat64(this.#at - 8, false);
  }

  bytes(length: number): Uint8Array {
    if (length > this.#bytes.byteLength - this.#at) throw new PickleProblem(ENDS_EARLY);
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  text(length: number): string {
    const bytes = this.bytes(length);
    this.charge(COST.text + 2 * length);
    try {
      return this.#text.decode(bytes);
    } catch (error) {
      if (error instanceof TypeError) throw new PickleProblem('it has text that is no UTF-8');
      throw error;
    }
  }

  line(): string {
    const end = this.#bytes.indexOf(NEWLINE, this.#at);
    if (end < 0) throw new PickleProblem(ENDS_EARLY);
    const line = this.text(end - this.#at);
    this.#at += 1;
    return line;
  }

  /** Call it before a value is made. */
  charge(bytes: number): void {
    this.#leftBytes -= bytes;
    if (this.#leftBytes < 0)
      throw new PickleProblem(`its values take more than ${MEMORY_MAX} bytes of memory`);
  }

  push(value: unknown): void {
    if (this.#stack.length >= WAITING_MAX) throw tooManyWaiting();
    this.#stack.push(value);
  }

  pop(): unknown {
    if (this.#stack.length === (this.#marks.at(-1) ?? 0))
      throw new PickleProblem('it takes a value that is not there');
    return this.#stack.pop();
  }

  top(): unknown {
    const value = this.pop();
    this.#stack.push(value);
    return value;
  }

  mark(): void {
    if (this.#marks.length >= WAITING_MAX) throw tooManyWaiting();
    this.#marks.push(this.#stack.length);
  }

  /** The values since the last mark. */
  toMark(): unknown[] {
    const start = this.#marks.pop();
    if (start === undefined) throw new PickleProblem('it lacks a mark');
    return this.#taken(this.#stack.length - start);
  }

  /** The last values. */
  take(count: number): unknown[] {
    if (this.#stack.length - (this.#marks.at(-1) ?? 0) < count)
      throw new PickleProblem('it takes a value that is not there');
    return this.#taken(count);
  }

  #taken(count: number): unknown[] {
    this.charge(COST.list + count * COST.slot);
    const values = this.#stack.slice(this.#stack.length - count);
    this.#stack.length -= count;
    return values;
  }

  remember(place: number): void {
    const value = this.top();
    if (place < this.#memo.length) this.#memo[place] = value;
    else if (place === this.#memo.length && !this.#farMemo.has(place)) {
      this.charge(COST.remembered);
      this.#memo.push(value);
    } else {
      this.charge(COST.rememberedFar);
      this.#farMemo.set(place, value);
    }
  }

  rememberNext(): void {
    this.remember(this.#memo.length + this.#farMemo.size);
  }

  recall(place: number): void {
    if (place < this.#memo.length) this.push(this.#memo[place]);
    else if (this.#farMemo.has(place)) this.push(this.#farMemo.get(place));
    else throw new PickleProblem('it recalls a value that is not there');
  }
}

function tooManyWaiting(): PickleProblem {
  return new PickleProblem(`it has more than ${WAITING_MAX} values that wait for an operation`);
}

const STOP = '.'.charCodeAt(0);
const NEWLINE = '\n'.charCodeAt(0);

function listAt(reader: PickleReader): unknown[] {
  const list = reader.top();
  if (!Array.isArray(list)) throw new PickleProblem('it appends to a value that is no list');
  return list;
}

function append(reader: PickleReader, values: readonly unknown[]): void {
  const list = listAt(reader);
  reader.charge((list.length === 0 ? COST.grown : 0) + values.length * COST.element);
  for (const value of values) list.push(value);
}

function setItems(reader: PickleReader, items: unknown[]): void {
  const dictionary = reader.top();
  if (!(dictionary instanceof PickledDictionary) || items.length % 2 !== 0)
    throw new PickleProblem('it sets items of a value that is no dictionary');
  if (dictionary.items.length === 0) {
    dictionary.items = items;
    return;
  }
  reader.charge(COST.grown + items.length * COST.element);
  for (const item of items) dictionary.items.push(item);
}

function list(reader: PickleReader): void {
  reader.charge(COST.list);
  reader.push([]);
}

function named(reader: PickleReader, module: unknown, name: unknown): void {
  if (typeof module !== 'string' || typeof name !== 'string')
    throw new PickleProblem('it names a class by a value that is no text');
  if (module.length + name.length > NAME_CHARS_MAX)
    throw new PickleProblem(`it names a class by more than ${NAME_CHARS_MAX} characters`);
  reader.charge(COST.object + COST.text + 2 * (module.length + name.length));
  reader.push(new PickledName(module, name));
}

function object(reader: PickleReader): void {
  const args = reader.pop();
  reader.charge(COST.object);
  reader.push(new PickledObject(reader.pop(), args));
}

function build(reader: PickleReader): void {
  const state = reader.pop();
  const built = reader.top();
  if (!(built instanceof PickledObject))
    throw new PickleProblem('it gives a state to a value that is no object');
  built.state = state;
}

function bytes(reader: PickleReader, lengthBytes: number): void {
  reader.charge(COST.bytes);
  reader.push(reader.bytes(lengthBytes));
}

/** Little-endian, two's complement. */
function long(reader: PickleReader): number | bigint {
  const bytes = reader.bytes(reader.u8());
  reader.charge(COST.number + bytes.byteLength);
  if (bytes.byteLength === 0) return 0;
  const hex = Buffer.from(bytes).reverse().toString('hex');
  const value = BigInt.asIntN(8 * bytes.byteLength, BigInt(`0x${hex}`));
  return Number.isSafeInteger(Number(value)) ? Number(value) : value;
}

const OPERATIONS: ReadonlyMap<number, Operation> = new Map(
  Object.entries<Operation>({
    '\x80': (reader) => void reader.u8(), // PROTO
    '\x95': (reader) => void reader.u64(), // FRAME
    '(': (reader) => reader.mark(),
    0: (reader) => void reader.pop(), // POP
    N: (reader) => reader.push(null),
    '\x88': (reader) => reader.push(true),
    '\x89': (reader) => reader.push(false),
    J: (reader) => reader.push(reader.i32()),
    K: (reader) => reader.push(reader.u8()),
    M: (reader) => reader.push(reader.u16()),
    '\x8a': (reader) => reader.push(long(reader)),
    G: (reader) => {
      reader.charge(COST.number);
      reader.push(reader.double());
    },
    X: (reader) => reader.push(reader.text(reader.u32())),
    '\x8c': (reader) => reader.push(reader.text(reader.u8())),
    '\x8d': (reader) => reader.push(reader.text(reader.u64())),
    B: (reader) => bytes(reader, reader.u32()),
    C: (reader) => bytes(reader, reader.u8()),
    '\x8e': (reader) => bytes(reader, reader.u64()),
    ')': list,
    t: (reader) => reader.push(reader.toMark()),
    '\x85': (reader) => reader.push(reader.take(1)),
    '\x86': (reader) => reader.push(reader.take(2)),
    '\x87': (reader) => reader.push(reader.take(3)),
    ']': list,
    l: (reader) => reader.push(reader.toMark()),
    a: (reader) => append(reader, reader.take(1)),
    e: (reader) => append(reader, reader.toMark()),
    '}': (reader) => {
      reader.charge(COST.dictionary + COST.list);
      reader.push(new PickledDictionary());
    },
    s: (reader) => setItems(reader, reader.take(2)),
    u: (reader) => setItems(reader, reader.toMark()),
    '\x8f': list, // EMPTY_SET
    '\x90': (reader) => append(reader, reader.toMark()),
    '\x91': (reader) => reader.push(reader.toMark()), // FROZENSET
    h: (reader) => reader.recall(reader.u8()),
    j: (reader) => reader.recall(reader.u32()),
    q: (reader) => reader.remember(reader.u8()),
    r: (reader) => reader.remember(reader.u32()),
    '\x94': (reader) => reader.rememberNext(),
    c: (reader) => {
      const module = reader.line();
      named(reader, module, reader.line());
    },
    '\x93': (reader) => {
      const name = reader.pop();
      named(reader, reader.pop(), name);
    },
    R: object,
    '\x81': object, // NEWOBJ
    b: build,
    Q: (reader) => {
      reader.charge(COST.object);
      reader.push(new PickledReference(reader.pop()));
    },
  }).map(([character, operation]) => [character.charCodeAt(0), operation]),
);
