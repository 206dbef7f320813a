/**
 * Prints a result to standard output in pieces, so that a long one is never in memory as one text.
 */

import { type JsonObject, JsonRows, type JsonValue } from './json.ts';

/** Large enough to keep the number of writes small. */
const PIECE_CHARACTERS = 65_536;

interface Out {
  write(text: string): unknown;
}

/** Lines, each with its newline. */
export function printLines(out: Out, lines: Iterable<string>): void {
  printPieces(out, newlineAfterEach(lines));
}

/** One object on one line. `JsonRows` are generated while they are printed. */
export function printJson(out: Out, object: JsonObject): void {
  printPieces(out, jsonPieces(object));
}

function* newlineAfterEach(lines: Iterable<string>): Iterable<string> {
  for (const line of lines) yield `${line}\n`;
}

function* jsonPieces(object: JsonObject): Iterable<string> {
  let before = '{';
  for (const [name, value] of Object.entries(object)) {
    if (value === undefined) continue; // As JSON.stringify does.
    yield `${before}${JSON.stringify(name)}:`;
    if (value instanceof JsonRows) yield* arrayPieces(value.rows());
    else yield JSON.stringify(value);
    before = ',';
  }
  yield before === '{' ? '{}\n' : '}\n';
}

function* arrayPieces(rows: Iterable<JsonValue>): Iterable<string> {
  let before = '[';
  for (const row of rows) {
    yield before + JSON.stringify(row);
    before = ',';
  }
  yield before === '[' ? '[]' : ']';
}

function printPieces(out: Out, pieces: Iterable<string>): void {
  let waiting: string[] = [];
  let length = 0;
  for (const piece of pieces) {
    waiting.push(piece);
    length += piece.length;
    if (length < PIECE_CHARACTERS) continue;
    out.write(waiting.join(''));
    waiting = [];
    length = 0;
  }
  if (length > 0) out.write(waiting.join(''));
}
