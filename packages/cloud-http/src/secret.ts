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

/** Shorter pieces reveal nothing of a secret, and occur in other texts by chance. */
const PIECE_LENGTH = 8;

/**
 * Removes from a text all pieces of the secrets of at least 8 characters: plain, percent-encoded or
 * in base64. For texts of servers that received the secrets and may repeat them.
 */
export function conceal(text: string, secrets: readonly string[]): string {
  const forms = secrets.filter((secret) => secret.length > 3).flatMap(formsOf);
  const pieces = new Set(forms.flatMap(piecesOf));
  const lengths = new Set(Array.from(pieces, ({ length }) => length));
  const hidden = new Uint8Array(text.length);
  for (const length of lengths) {
    for (let at = 0; at + length <= text.length; at += 1)
      if (pieces.has(text.slice(at, at + length))) hidden.fill(1, at, at + length);
  }
  let shown = '';
  for (let at = 0; at < text.length; at += 1) {
    if (hidden[at] === 0) shown += text[at];
    else if (at === 0 || hidden[at - 1] === 0) shown += SHOWN;
  }
  return shown;
}

function formsOf(secret: string): string[] {
  return [secret, encodeURIComponent(secret), ...BASE64.flatMap((base64) => encodedForms(secret, base64))];
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

/** Parts of a secret to search for in a text: all pieces of it, or the whole if it is short. */
function piecesOf(form: string): string[] {
  const count = Math.max(1, form.length - PIECE_LENGTH + 1);
  return Array.from({ length: count }, (_, from) => form.slice(from, from + PIECE_LENGTH));
}
