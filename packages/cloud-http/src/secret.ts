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
  const bytes = Buffer.from(secret);
  return [secret, encodeURIComponent(secret), bytes.toString('base64'), bytes.toString('base64url')];
}

/** Parts of a secret to search for in a text: all pieces of it, or the whole if it is short. */
function piecesOf(form: string): string[] {
  const count = Math.max(1, form.length - PIECE_LENGTH + 1);
  return Array.from({ length: count }, (_, from) => form.slice(from, from + PIECE_LENGTH));
}
