/**
 * Writes a pickle of Python, protocol 2, which every Python 3 reads
 * (https://github.com/python/cpython/blob/main/Lib/pickletools.py). Its operations name classes and
 * functions of the caller's choice, and hold no code. Pure.
 *
 * Items may come from generators, so that the values of a large pickle are not all in memory.
 */

export type PickleValue =
  | null
  | false
  | number
  | string
  | { readonly is: 'name'; readonly module: string; readonly name: string }
  | { readonly is: 'tuple'; readonly items: Iterable<PickleValue> }
  | { readonly is: 'list'; readonly items: Iterable<PickleValue> }
  | { readonly is: 'dictionary'; readonly pairs: Iterable<readonly [PickleValue, PickleValue]> }
  | { readonly is: 'call'; readonly of: PickleValue; readonly args: readonly PickleValue[] }
  | { readonly is: 'object'; readonly of: PickleValue; readonly state: PickleValue }
  | { readonly is: 'reference'; readonly id: PickleValue };

export function named(module: string, name: string): PickleValue {
  return { is: 'name', module, name };
}

export function tuple(...items: readonly PickleValue[]): PickleValue {
  return { is: 'tuple', items };
}

export function list(items: Iterable<PickleValue>): PickleValue {
  return { is: 'list', items };
}

export function dictionary(pairs: Iterable<readonly [PickleValue, PickleValue]>): PickleValue {
  return { is: 'dictionary', pairs };
}

/** The result of a call. */
export function called(of: PickleValue, ...args: readonly PickleValue[]): PickleValue {
  return { is: 'call', of, args };
}

/** An object made without arguments, which then gets its state. */
export function objectOf(of: PickleValue, state: PickleValue): PickleValue {
  return { is: 'object', of, state };
}

/** What the program that reads the pickle has for this id. */
export function reference(id: PickleValue): PickleValue {
  return { is: 'reference', id };
}

/** Numbers are whole and safe, texts are well formed. */
export function writePickle(value: PickleValue): Uint8Array<ArrayBuffer> {
  const writer = new PickleWriter();
  writer.write(value);
  return writer.finish();
}

const CHUNK_CHARS = 64 * 1024;
const BYTE = 256;

class PickleWriter {
  readonly #chunks: Buffer[] = [];
  /** One character for each byte. */
  #text = '\x80\x02';
  /** Numbers of the texts and names that were written. They are recalled, not repeated. */
  readonly #known = new Map<string, number>();

  finish(): Uint8Array<ArrayBuffer> {
    this.#put('.');
    this.#flush();
    return Buffer.concat(this.#chunks);
  }

  write(value: PickleValue): void {
    if (value === null) this.#put('N');
    else if (value === false) this.#put('\x89');
    else if (typeof value === 'number') this.#put(numberOf(value));
    else if (typeof value === 'string') this.#once(`text ${value}`, () => textOf(value));
    else if (value.is === 'name') {
      const place = `${value.module}\n${value.name}\n`;
      this.#once(`name ${place}`, () => `c${place}`);
    } else if (value.is === 'tuple') this.#sequence('(', value.items, 't');
    else if (value.is === 'list') this.#sequence('](', value.items, 'e');
    else if (value.is === 'dictionary') this.#sequence('}(', flat(value.pairs), 'u');
    else if (value.is === 'call') {
      this.write(value.of);
      this.#sequence('(', value.args, 'tR');
    } else if (value.is === 'object') {
      this.write(value.of);
      this.#put(')\x81');
      this.write(value.state);
      this.#put('b');
    } else if (value.is === 'reference') {
      this.write(value.id);
      this.#put('Q');
    }
  }

  #sequence(begin: string, items: Iterable<PickleValue>, end: string): void {
    this.#put(begin);
    for (const item of items) this.write(item);
    this.#put(end);
  }

  #once(key: string, made: () => string): void {
    const number = this.#known.get(key);
    if (number !== undefined) {
      this.#put(number < BYTE ? `h${le(number, 1)}` : `j${le(number, 4)}`);
      return;
    }
    const next = this.#known.size;
    this.#known.set(key, next);
    this.#put(made() + (next < BYTE ? `q${le(next, 1)}` : `r${le(next, 4)}`));
  }

  #put(text: string): void {
    this.#text += text;
    if (this.#text.length >= CHUNK_CHARS) this.#flush();
  }

  #flush(): void {
    this.#chunks.push(Buffer.from(this.#text, 'latin1'));
    this.#text = '';
  }
}

function* flat(pairs: Iterable<readonly [PickleValue, PickleValue]>): Generator<PickleValue> {
  for (const [key, value] of pairs) {
    yield key;
    yield value;
  }
}

function textOf(text: string): string {
  const bytes = Buffer.from(text);
  return `X${le(bytes.byteLength, 4)}${bytes.toString('latin1')}`;
}

function numberOf(value: number): string {
  if (value >= 0 && value < BYTE) return `K${le(value, 1)}`;
  if (value === (value | 0)) return `J${le(value, 4)}`;
  return `\x8a\x08${le(value, 8)}`;
}

/** Little-endian, two's complement. */
function le(value: number, byteCount: 1 | 4 | 8): string {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64LE(BigInt(value));
  return bytes.toString('latin1', 0, byteCount);
}
