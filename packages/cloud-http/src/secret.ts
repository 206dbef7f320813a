/**
 * A secret value that can be sent but is never shown: printed, inspected or in JSON it says only
 * that it is a secret.
 */

const SHOWN = '[secret]';

export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  /** The value itself. Callers only send it, or compute with it. */
  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return SHOWN;
  }

  toJSON(): string {
    return SHOWN;
  }

  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return SHOWN;
  }
}

/** Parameters of S3, and of the XML interface of GCS, that hold the id of an upload. */
const UPLOAD_ID_PARAMETERS = ['uploadId', 'upload-id-marker'];

/** The secrets in the query of a request. With the id of an upload one can add parts to it. */
export function secretsOfQuery(query: Readonly<Record<string, string | undefined>> = {}): string[] {
  return UPLOAD_ID_PARAMETERS.flatMap((name) => query[name] ?? []);
}

/** Shorter pieces reveal nothing of a secret, and occur in other texts by chance. */
const PIECE_LENGTH = 8;

/** Encodings over one another that are looked through: of a proxy, a server and its message. */
const LAYERS_MAX = 3;

/**
 * Removes from a text all pieces of the secrets of at least 8 characters: plain, in base64 or in
 * hex, with any of their characters escaped as in a URL, in XML or in JSON. For texts of servers
 * that received the secrets and may repeat them.
 */
export function conceal(text: string, secrets: readonly string[]): string {
  const forms = secrets.filter((secret) => secret.length > 3).flatMap(formsOf);
  const pieces = new Set(forms.flatMap(piecesOf));
  if (pieces.size === 0) return text;
  const hidden = new Uint8Array(text.length);
  const lengths = new Set(Array.from(pieces, ({ length }) => length));
  let layer: Layer | null = { text, starts: Uint32Array.from({ length: text.length + 1 }, (_, at) => at) };
  for (let count = 0; layer !== null && count <= LAYERS_MAX; count += 1) {
    for (const each of [layer, ...fromHex(layer)])
      for (const length of lengths) hide(each, length, pieces, hidden);
    layer = unescaped(layer);
  }
  let shown = '';
  for (let at = 0; at < text.length; at += 1) {
    if (hidden[at] === 0) shown += text[at];
    else if (at === 0 || hidden[at - 1] === 0) shown += SHOWN;
  }
  return shown;
}

/** A text whose escapes are resolved. */
interface Layer {
  readonly text: string;
  /** For each of its characters the place in the original; at last, the end of the original. */
  readonly starts: Uint32Array;
}

function hide(
  { text, starts }: Layer,
  length: number,
  pieces: ReadonlySet<string>,
  hidden: Uint8Array,
): void {
  for (let at = 0; at + length <= text.length; at += 1)
    if (pieces.has(text.slice(at, at + length))) hidden.fill(1, starts[at], starts[at + length]);
}

const ESCAPE =
  /%([0-9a-f]{2})|&#x0*([0-9a-f]{1,6});|&#0*([0-9]{1,7});|&(amp|lt|gt|quot|apos);|\\u([0-9a-f]{4})|\\([/"\\])/gi;
const NAMED: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

/** `null`: there is no escape. */
function unescaped({ text, starts }: Layer): Layer | null {
  const places: number[] = [];
  let resolved = '';
  let done = 0;
  for (const match of text.matchAll(ESCAPE)) {
    const character = characterOf(match);
    resolved += text.slice(done, match.index) + character;
    for (const start of starts.subarray(done, match.index)) places.push(start);
    for (let unit = 0; unit < character.length; unit += 1) places.push(starts[match.index] as number);
    done = match.index + match[0].length;
  }
  if (done === 0) return null;
  resolved += text.slice(done);
  for (const start of starts.subarray(done)) places.push(start);
  return { text: resolved, starts: Uint32Array.from(places) };
}

function characterOf([whole, inUrl, hexInXml, inXml, named, inJson, plain]: RegExpExecArray): string {
  if (named !== undefined) return NAMED[named.toLowerCase()] ?? whole;
  if (plain !== undefined) return plain;
  const hex = inUrl ?? hexInXml ?? inJson;
  const code = hex === undefined ? Number(inXml) : Number.parseInt(hex, 16);
  return code <= 0x10_ffff ? String.fromCodePoint(code) : whole;
}

/** At least 8 bytes in hex, also with separators: `6b6579…`, `6B 65 79 …`, `0x6b:0x65…`. */
const HEX = /(?:(?:0x)?[0-9a-f]{2}[ :,-]?){8,}[0-9a-f]?/gi;
const HEX_DIGIT = /0x|[0-9a-f]/gi;

/** The bytes that hex digits of a layer stand for. A first digit may belong to the text before. */
function fromHex({ text, starts }: Layer): Layer[] {
  const found: Layer[] = [];
  for (const match of text.matchAll(HEX)) {
    const digits = [...match[0].matchAll(HEX_DIGIT)].filter(([digit]) => digit.length === 1);
    for (const from of [0, 1]) {
      let bytes = '';
      const places: number[] = [];
      for (let at = from; at + 1 < digits.length; at += 2) {
        const [high, low] = [digits[at], digits[at + 1]] as [RegExpExecArray, RegExpExecArray];
        bytes += String.fromCharCode(Number.parseInt(high[0] + low[0], 16));
        places.push(starts[match.index + high.index] as number);
      }
      const end = match.index + (digits.at(-1)?.index ?? 0) + 1;
      found.push({ text: bytes, starts: Uint32Array.from([...places, starts[end] as number]) });
    }
  }
  return found;
}

function formsOf(secret: string): string[] {
  // Escapes of a URL are resolved byte by byte.
  const inBytes = Buffer.from(secret).toString('latin1');
  return [
    secret,
    inBytes,
    ...decodedForms(secret),
    encodeURIComponent(secret),
    ...BASE64.flatMap((base64) => encodedForms(secret, base64)),
  ];
}

const BASE64 = ['base64', 'base64url'] as const;

/** In base64 the form of a secret depends on how many bytes precede it in the encoded text. */
function encodedForms(secret: string, base64: (typeof BASE64)[number]): string[] {
  const bytes = Buffer.from(secret);
  const inside = [1, 2].map((before) => {
    const form = Buffer.concat([Buffer.alloc(before), bytes])
      .toString(base64)
      .replaceAll('=', '');
    // The first characters depend on the bytes before the secret, the last one on those after it.
    const end = (before + bytes.length) % 3 === 0 ? form.length : -1;
    return form.slice(before + 1, end);
  });
  return [bytes.toString(base64), ...inside.filter(({ length }) => length >= PIECE_LENGTH)];
}

/** The bytes that a secret itself encodes, such as a key or a signature. */
function decodedForms(secret: string): string[] {
  if (!/^[A-Za-z0-9+/_-]{16,}={0,2}$/.test(secret)) return [];
  return [Buffer.from(secret, 'base64').toString('latin1')];
}

/** Parts of a secret to search for in a text: all pieces of it, or the whole if it is short. */
function piecesOf(form: string): string[] {
  const count = Math.max(1, form.length - PIECE_LENGTH + 1);
  return Array.from({ length: count }, (_, from) => form.slice(from, from + PIECE_LENGTH));
}
