/** Secrets that can be detected wherever a piece of them appears, in whatever form. */

import { createHash } from 'node:crypto';

const PIECE_LENGTH = 8;
/**
 * Characters of the secret that a piece must hold. In a percent-encoded URI, `%2F%2F12` would
 * otherwise be a piece of every key with `//12` in its base64.
 */
const CHARACTERS_MIN = 6;

export class Marks {
  /** Pieces in all forms, each with the name of its secret. */
  readonly #pieces = new Map<string, string>();

  /** A secret for this name: 32 letters and digits, the same every time. */
  make(name: string): string {
    const text = createHash('sha512')
      .update(name)
      .digest('base64')
      .replace(/[^A-Za-z0-9]/g, '');
    return this.keep(name, text.slice(0, 32));
  }

  /** The same with 32 bytes, in base64, as keys are given. */
  makeKey(name: string): string {
    return this.keep(name, createHash('sha256').update(name).digest('base64'));
  }

  /** Registers this text as a secret. */
  keep(name: string, secret: string): string {
    for (const form of formsOf(secret)) {
      for (let from = 0; from + PIECE_LENGTH <= form.length; from += 1)
        this.#pieces.set(form.slice(from, from + PIECE_LENGTH), name);
    }
    for (const piece of encodedPieces(secret)) this.#pieces.set(piece, name);
    return secret;
  }

  /** Names of the secrets that have a piece in the text, each with its place. */
  foundIn(text: string): string[] {
    const found = new Map<string, string>();
    for (let at = 0; at + PIECE_LENGTH <= text.length; at += 1) {
      const name = this.#pieces.get(text.slice(at, at + PIECE_LENGTH));
      if (name !== undefined && !found.has(name))
        found.set(name, text.slice(Math.max(0, at - 80), at + PIECE_LENGTH + 20));
    }
    return Array.from(found, ([name, place]) => `${name}: …${place}…`);
  }
}

/** The base64 of a text depends on its offset modulo 3. */
function formsOf(secret: string): string[] {
  const shifted = ['', 'x', 'xx'].flatMap((before) => {
    const bytes = Buffer.from(`${before}${secret}`);
    return [bytes.toString('base64'), bytes.toString('base64url')].map((text) =>
      text.replace(/=+$/, '').slice(before === '' ? 0 : 4, -1),
    );
  });
  return [secret, Buffer.from(secret).toString('hex'), ...shifted];
}

/** Pieces of the percent-encoded secret. */
function encodedPieces(secret: string): string[] {
  const characters = Array.from(secret, (character) => encodeURIComponent(character));
  const ends: number[] = [];
  for (const { length } of characters) ends.push((ends.at(-1) ?? 0) + length);
  const encoded = characters.join('');
  const pieces: string[] = [];
  for (let from = 0; from + PIECE_LENGTH <= encoded.length; from += 1) {
    const whole = ends.filter(
      (end, index) => end <= from + PIECE_LENGTH && end - (characters[index]?.length ?? 0) >= from,
    );
    if (whole.length >= CHARACTERS_MIN) pieces.push(encoded.slice(from, from + PIECE_LENGTH));
  }
  return pieces;
}
