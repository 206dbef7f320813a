import { describe, expect, test } from 'vitest';
import { JsonRows, type JsonValue } from './json.ts';
import { printJson, printLines } from './print-result.ts';
import { renderTable, tableLines } from './table.ts';

/** More than the limit of a function's arguments. */
const MANY = 200_000;

function collector() {
  const pieces: string[] = [];
  return { pieces, write: (text: string) => pieces.push(text) };
}

function* numbers(count: number): Iterable<JsonValue> {
  for (let number = 0; number < count; number++) yield number;
}

describe('printJson', () => {
  test('prints what JSON.stringify would, rows or not', () => {
    const out = collector();
    const rest = { a: 1, b: [], c: { d: 'é"\n' }, e: null };
    printJson(out, { ...rest, rows: new JsonRows(() => numbers(3)), none: new JsonRows(() => []) });
    printJson(out, rest);
    printJson(out, {});
    const texts = [{ ...rest, rows: [0, 1, 2], none: [] }, rest, {}].map((each) => JSON.stringify(each));
    expect(out.pieces).toEqual(texts.map((text) => `${text}\n`));
  });

  test('many rows come in pieces, and are made while they are printed', () => {
    const out = collector();
    let madeAtFirstPiece = 0;
    const rows = function* () {
      for (let row = 0; row < MANY; row++) {
        if (out.pieces.length === 0) madeAtFirstPiece++;
        yield row;
      }
    };
    printJson(out, { rows: new JsonRows(rows) });
    expect(JSON.parse(out.pieces.join('')).rows).toHaveLength(MANY);
    expect(Math.max(...out.pieces.map((piece) => piece.length))).toBeLessThan(100_000);
    expect(madeAtFirstPiece).toBeLessThan(MANY / 2);
  });
});

test('printLines ends each line, also an empty one', () => {
  const out = collector();
  printLines(out, ['a', '', 'b']);
  expect(out.pieces).toEqual(['a\n\nb\n']);
});

describe('a table of many rows', () => {
  const columns = [
    { title: 'N', align: 'right' },
    { title: 'NAME', align: 'left' },
  ] as const;

  test('is as any other', () => {
    const lines = renderTable(
      columns,
      Array.from({ length: MANY }, (_, row) => [String(row), `row ${row}`]),
    );
    expect([lines.length, lines[0], lines[1], lines.at(-1)]).toEqual([
      MANY + 1,
      '     N   NAME',
      '     0   row 0',
      '199999   row 199999',
    ]);
  });

  test('its rows are made as they are needed, and none is kept', () => {
    let made = 0;
    const lines = tableLines(columns, [1, 2, 3], (row) => {
      made++;
      return [String(row), 'x'];
    });
    const [title] = lines;
    expect([title, made]).toEqual(['N   NAME', 3]);
  });
});
