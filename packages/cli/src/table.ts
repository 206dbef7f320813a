import stringWidth from 'fast-string-width';

export interface Column {
  readonly title: string;
  readonly align: 'left' | 'right';
}

/**
 * Lines of a table without rules: a line of titles, then one per row, columns apart by two or three spaces.
 * Every row has one cell per column; wide characters count as the two places they take.
 */
export function renderTable(columns: readonly Column[], rows: readonly (readonly string[])[]): string[] {
  const lines = [columns.map((column) => column.title), ...rows];
  const widths = columns.map((_, index) => Math.max(...lines.map((line) => stringWidth(line[index] ?? ''))));
  return lines.map((line) =>
    columns
      .map((column, index) => pad(line[index] ?? '', widths[index] ?? 0, column.align))
      .join('   ')
      .trimEnd(),
  );
}

function pad(text: string, width: number, align: Column['align']): string {
  const space = ' '.repeat(Math.max(0, width - stringWidth(text)));
  return align === 'right' ? space + text : text + space;
}
