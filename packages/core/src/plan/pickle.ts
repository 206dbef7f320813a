/**
 * Reads a pickle of Python as inert data: nothing it names is looked up or called. A class becomes
 * its name, and an object or a call becomes a record of what it was made from. Protocols 2 to 5
 * (https://github.com/python/cpython/blob/main/Lib/pickletools.py); only the operations that
 * containers, numbers, strings and objects need. Pure.
 *
 * A pickle may be hostile: each operation makes at most one value, and their number is limited.
 */

/** One takes up to a hundred bytes of memory. */
const OPERATIONS_MAX = 4_000_000;

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

/**
 * Lists, tuples and sets become arrays, dictionaries become maps; whole numbers beyond 2^53 become
 * bigints. Throws `PickleProblem`.
 */
export function readPickle(bytes: Uint8Array): unknown {
  try {
    return new PickleReader(bytes).read();
  } catch (error) {
    // DataView reports a read past the end so.
    if (error instanceof RangeError) throw new PickleProblem('it ends early');
    throw error;
  }
}

type Operation = (reader: PickleReader) => void;

class PickleReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  readonly #memo = new Map<number, unknown>();
  #stack: unknown[] = [];
  readonly #marked: unknown[][] = [];
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

  take(length: number): Uint8Array {
    if (length > this.#bytes.byteLength - this.#at) throw new PickleProblem('it ends early');
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  text(length: number): string {
    try {
      return this.#text.decode(this.take(length));
    } catch (error) {
      if (error instanceof TypeError) throw new PickleProblem('it has text that is no UTF-8');
      throw error;
    }
  }

  line(): string {
    const end = this.#bytes.indexOf(NEWLINE, this.#at);
    if (end < 0) throw new PickleProblem('it ends early');
    const line = this.text(end - this.#at);
    this.#at += 1;
    return line;
  }

  push(value: unknown): void {
    this.#stack.push(value);
  }

  pop(): unknown {
    if (this.#stack.length === 0) throw new PickleProblem('it takes a value that is not there');
    return this.#stack.pop();
  }

  top(): unknown {
    const value = this.pop();
    this.#stack.push(value);
    return value;
  }

  mark(): void {
    this.#marked.push(this.#stack);
    this.#stack = [];
  }

  /** The values since the last mark. */
  toMark(): unknown[] {
    const values = this.#stack;
    const before = this.#marked.pop();
    if (!before) throw new PickleProblem('it lacks a mark');
    this.#stack = before;
    return values;
  }

  remember(place: number): void {
    this.#memo.set(place, this.top());
  }

  rememberNext(): void {
    this.remember(this.#memo.size);
  }

  recall(place: number): void {
    if (!this.#memo.has(place)) throw new PickleProblem('it recalls a value that is not there');
    this.push(this.#memo.get(place));
  }
}

const STOP = '.'.charCodeAt(0);
const NEWLINE = '\n'.charCodeAt(0);

function listAt(reader: PickleReader): unknown[] {
  const list = reader.top();
  if (!Array.isArray(list)) throw new PickleProblem('it appends to a value that is no list');
  return list;
}

function addPairs(reader: PickleReader, values: readonly unknown[]): void {
  const dictionary = reader.top();
  if (!(dictionary instanceof Map) || values.length % 2 !== 0)
    throw new PickleProblem('it sets items of a value that is no dictionary');
  for (let at = 0; at < values.length; at += 2) dictionary.set(values[at], values[at + 1]);
}

function tupleOf(reader: PickleReader, count: number): void {
  const values = Array.from({ length: count }, () => reader.pop()).reverse();
  reader.push(values);
}

function named(reader: PickleReader, module: unknown, name: unknown): void {
  if (typeof module !== 'string' || typeof name !== 'string')
    throw new PickleProblem('it names a class by a value that is no text');
  reader.push(new PickledName(module, name));
}

function object(reader: PickleReader): void {
  const args = reader.pop();
  reader.push(new PickledObject(reader.pop(), args));
}

function build(reader: PickleReader): void {
  const state = reader.pop();
  const built = reader.top();
  if (!(built instanceof PickledObject))
    throw new PickleProblem('it gives a state to a value that is no object');
  built.state = state;
}

/** Little-endian, two's complement. */
function long(bytes: Uint8Array): number | bigint {
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
    '\x8a': (reader) => reader.push(long(reader.take(reader.u8()))),
    G: (reader) => reader.push(reader.double()),
    X: (reader) => reader.push(reader.text(reader.u32())),
    '\x8c': (reader) => reader.push(reader.text(reader.u8())),
    '\x8d': (reader) => reader.push(reader.text(reader.u64())),
    B: (reader) => reader.push(reader.take(reader.u32())),
    C: (reader) => reader.push(reader.take(reader.u8())),
    '\x8e': (reader) => reader.push(reader.take(reader.u64())),
    ')': (reader) => reader.push([]),
    t: (reader) => reader.push(reader.toMark()),
    '\x85': (reader) => tupleOf(reader, 1),
    '\x86': (reader) => tupleOf(reader, 2),
    '\x87': (reader) => tupleOf(reader, 3),
    ']': (reader) => reader.push([]),
    l: (reader) => reader.push(reader.toMark()),
    a: (reader) => {
      const value = reader.pop();
      listAt(reader).push(value);
    },
    e: (reader) => {
      const values = reader.toMark();
      const list = listAt(reader);
      for (const value of values) list.push(value);
    },
    '}': (reader) => reader.push(new Map()),
    s: (reader) => {
      const [value, key] = [reader.pop(), reader.pop()];
      addPairs(reader, [key, value]);
    },
    u: (reader) => addPairs(reader, reader.toMark()),
    '\x8f': (reader) => reader.push([]), // EMPTY_SET
    '\x90': (reader) => {
      const values = reader.toMark();
      const set = listAt(reader);
      for (const value of values) set.push(value);
    },
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
    Q: (reader) => reader.push(new PickledReference(reader.pop())),
  }).map(([character, operation]) => [character.charCodeAt(0), operation]),
);
