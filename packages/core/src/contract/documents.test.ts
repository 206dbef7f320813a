/** The tables of docs that repeat a table of the code: every row, with each value. */

import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { ERROR_CODES } from './errors.ts';
import { SETTINGS } from './settings.ts';

/** The cells of each row that begins with a name in code, without those of the columns `but`. */
function rowsOf(document: string, ...but: readonly number[]): string[][] {
  const text = readFileSync(new URL(`../../../../docs/${document}`, import.meta.url), 'utf8');
  const rows = text.split('\n').filter((line) => /^\| `\w+` \|/.test(line));
  return rows.map((row) =>
    row
      .slice(1, -1)
      .split(' | ')
      .map((cell) => cell.trim())
      .filter((_, column) => !but.includes(column)),
  );
}

const grouped = (number: number) => number.toLocaleString('en-US');

test('docs/settings.md has a row for each setting, in order, with its numbers and meaning', () => {
  const rows = Object.entries(SETTINGS).map(([name, { default: usual, min, max, meaning }]) => [
    ...[`\`${name}\``, grouped(usual), grouped(min), grouped(max)],
    meaning,
  ]);
  expect(rowsOf('settings.md')).toEqual(rows);
});

test('docs/errors.md has a row for each code, in order, with its status, exit status and advice', () => {
  const rows = Object.entries(ERROR_CODES).map(([code, { status, exitCode, advice }]) => [
    ...[`\`${code}\``, status, `${exitCode}`],
    advice,
  ]);
  const WHEN = 3;
  expect(rowsOf('errors.md', WHEN)).toEqual(rows);
});
