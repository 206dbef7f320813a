/**
 * A value that is held to be sent, and never shown: printed, inspected or put into JSON it says no
 * more than that it is one.
 */

const SHOWN = '[secret]';

export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  /** The value itself. What asks for it sends it, or computes with it. */
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

/** Shorter pieces of a secret tell nothing of it, and stand in other texts by chance. */
const PIECE_LENGTH = 8;

/**
 * The text without what it repeats of the secrets: as they are, percent-encoded or in base64, whole
 * or in pieces of 8 characters and more. For the words of others, who have been told the secrets: a
 * server repeats what it was sent.
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
  const bytes = Buffer.from(secret);
  return [secret, encodeURIComponent(secret), bytes.toString('base64'), bytes.toString('base64url')];
}

/**
 * Of a text as it may be in the midst of another: all pieces of it, or the whole where it is short.
 */
function piecesOf(form: string): string[] {
  const count = Math.max(1, form.length - PIECE_LENGTH + 1);
  return Array.from({ length: count }, (_, from) => form.slice(from, from + PIECE_LENGTH));
}
