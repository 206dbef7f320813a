import stringWidth from 'fast-string-width';

export interface Column {
  readonly title: string;
  readonly align: 'left' | 'right';
}

type Row = readonly string[];

/**
 * Lines of a table: a line of titles, then one per row, with two or three spaces between columns.
 * Every row has one cell per column. Wide characters count as two columns.
 */
export function renderTable(columns: readonly Column[], rows: readonly Row[]): string[] {
  return [...tableLines(columns, rows, (row) => row)];
}

/**
 * The same for any number of items. It generates the rows twice, for the widths and for the lines,
 * and keeps none in memory.
 */
export function* tableLines<T>(
  columns: readonly Column[],
  items: readonly T[],
  rowOf: (item: T) => Row,
): Iterable<string> {
  const widths = columns.map(({ title }) => stringWidth(title));
  for (const item of items) {
    rowOf(item).forEach((cell, index) => {
      widths[index] = Math.max(widths[index] ?? 0, stringWidth(cell));
    });
  }
  const lineOf = (row: Row) =>
    columns
      .map(({ align }, index) => pad(row[index] ?? '', widths[index] ?? 0, align))
      .join('   ')
      .trimEnd();
  yield lineOf(columns.map(({ title }) => title));
  for (const item of items) yield lineOf(rowOf(item));
}

function pad(text: string, width: number, align: Column['align']): string {
  const space = ' '.repeat(Math.max(0, width - stringWidth(text)));
  return align === 'right' ? space + text : text + space;
}
