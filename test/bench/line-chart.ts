/**
 * Lines over sizes as SVG, with logarithmic axes by powers of ten. Linear growth is a straight
 * diagonal, and a constant is level.
 */

export interface Line {
  readonly label: string;
  readonly points: readonly { readonly size: number; readonly value: number }[];
}

export interface LinePanel {
  readonly title: string;
  readonly lines: readonly Line[];
}

// Sizes in pixels.
const WIDTH = 860;
const TOP = 72;
const PLOT_HEIGHT = 268;
const LEFT = 56;
const PANEL_WIDTH = 410;
const PANEL_HEIGHT = 320;
const PLOT_WIDTH = 330;
const COLUMNS = 2;
const COLOURS = ['#0f766e', '#b45309', '#6d28d9', '#be123c', '#1d4ed8', '#4d7c0f'];

/**
 * `note` is one line below the title. Panels stand in rows of two, and use the same line names and
 * colours.
 */
export function lineChart(title: string, note: string, panels: readonly LinePanel[]): string {
  const drawn = panels.map((panel, index) => {
    const row = Math.floor(index / COLUMNS);
    return panelOf(panel, LEFT + (index % COLUMNS) * PANEL_WIDTH, TOP + row * PANEL_HEIGHT);
  });
  const end = TOP + Math.ceil(panels.length / COLUMNS) * PANEL_HEIGHT;
  const height = end + 8;
  const labels = panels[0]?.lines.map(({ label }, index) => legendOf(label, index, end - 16)) ?? [];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="11">`,
    `<rect width="${WIDTH}" height="${height}" fill="#fff"/>`,
    `<text x="20" y="24" font-size="15" font-weight="bold">${escaped(title)}</text>`,
    `<text x="20" y="42" fill="#555">${escaped(note)}</text>`,
    ...drawn,
    ...labels,
    '</svg>',
    '',
  ].join('\n');
}

function panelOf({ title, lines }: LinePanel, left: number, top: number): string {
  const bottom = top + PLOT_HEIGHT;
  const points = lines.flatMap((line) => line.points);
  const sizeDecades = decades(points.map(({ size }) => size));
  const valueDecades = decades(points.map(({ value }) => value));
  const x = (size: number) => left + (Math.log10(size) / sizeDecades) * PLOT_WIDTH;
  const y = (value: number) => bottom - (Math.log10(Math.max(1, value)) / valueDecades) * PLOT_HEIGHT;
  const grid = Array.from({ length: valueDecades + 1 }, (_, power) => {
    const at = y(10 ** power).toFixed(1);
    const rule = `<line x1="${left}" x2="${left + PLOT_WIDTH}" y1="${at}" y2="${at}" stroke="#ddd"/>`;
    return `${rule}<text x="${left - 6}" y="${at}" dy="4" text-anchor="end" fill="#555">${short(10 ** power)}</text>`;
  });
  const sizes = [...new Set(points.map(({ size }) => size))].map(
    (size) =>
      `<text x="${x(size).toFixed(1)}" y="${bottom + 16}" text-anchor="middle" fill="#555">${short(size)}</text>`,
  );
  const drawn = lines.map((line, index) => {
    const at = line.points.map(({ size, value }) => `${x(size).toFixed(1)},${y(value).toFixed(1)}`);
    return `<polyline points="${at.join(' ')}" fill="none" stroke="${COLOURS[index % COLOURS.length]}" stroke-width="2"/>`;
  });
  const heading = `<text x="${left}" y="${top - 12}" font-weight="bold">${escaped(title)}</text>`;
  return [heading, ...grid, ...sizes, ...drawn].join('\n');
}

function legendOf(label: string, index: number, start: number): string {
  const left = LEFT + (index % 3) * 260;
  const top = start + Math.floor(index / 3) * 16;
  const colour = COLOURS[index % COLOURS.length];
  return `<rect x="${left}" y="${top - 8}" width="14" height="4" fill="${colour}"/><text x="${left + 20}" y="${top}">${escaped(label)}</text>`;
}

function decades(values: readonly number[]): number {
  return Math.max(1, Math.ceil(Math.log10(Math.max(...values))));
}

function short(value: number): string {
  if (value >= 1e9) return `${value / 1e9}G`;
  if (value >= 1e6) return `${value / 1e6}M`;
  return value >= 1000 ? `${value / 1000}k` : `${value}`;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
