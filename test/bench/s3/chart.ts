/**
 * Bar charts as SVG, small enough to read in a diff. The chart has its own background, so that its
 * colours suit light and dark pages.
 */

export interface Bar {
  readonly label: string;
  readonly median: number;
  readonly min: number;
  readonly max: number;
  readonly isOurs: boolean;
}

export interface Panel {
  readonly title: string;
  readonly bars: readonly Bar[];
}

export interface Chart {
  readonly title: string;
  readonly note: string;
  /** Panels side by side. */
  readonly rows: readonly (readonly Panel[])[];
}

// Sizes in pixels.
const WIDTH = 860;
const MARGIN = 20;
const GAP = 28;
const HEAD = 58;
const PANEL_HEAD = 26;
const BAR = 15;
const BAR_PITCH = 22;
const PANEL_FOOT = 18;
const LABEL_WIDTH = 82;
const VALUE_WIDTH = 46;

const STYLE = `
svg{font:12px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif}
.page{fill:#fff;stroke:#d0d7de}.title{font-size:15px;font-weight:600}.panel{font-weight:600}
text{fill:#24292f}.soft{fill:#57606a}.bar{fill:#9aa4b0}.ours{fill:#1a7f5a}.range{stroke:#24292f;stroke-width:1.5}.axis{stroke:#d0d7de}
@media(prefers-color-scheme:dark){.page{fill:#161b22;stroke:#30363d}text{fill:#e6edf3}.soft{fill:#9da7b3}.bar{fill:#5d6874}.ours{fill:#3fb68b}.range{stroke:#e6edf3}.axis{stroke:#30363d}}
`.trim();

/** An empty panel shows only its title. Each panel has its own scale from 0. */
export function barChart({ title, note, rows }: Chart): string {
  const body: string[] = [];
  let top = HEAD;
  for (const panels of rows) {
    const width = (WIDTH - 2 * MARGIN - GAP * (panels.length - 1)) / panels.length;
    for (const [index, panel] of panels.entries())
      body.push(...drawPanel(panel, { left: MARGIN + index * (width + GAP), top, width }));
    top += PANEL_HEAD + Math.max(...panels.map(({ bars }) => bars.length)) * BAR_PITCH + PANEL_FOOT;
  }
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${top}" width="${WIDTH}" height="${top}" role="img" aria-label="${escaped(title)}">`,
    `<style>${STYLE}</style>`,
    `<rect class="page" x="0.5" y="0.5" width="${WIDTH - 1}" height="${top - 1}" rx="6"/>`,
    `<text class="title" x="${MARGIN}" y="27">${escaped(title)}</text>`,
    `<text class="soft" x="${MARGIN}" y="45">${escaped(note)}</text>`,
    ...body,
    '</svg>\n',
  ].join('\n');
}

interface Place {
  readonly left: number;
  readonly top: number;
  readonly width: number;
}

function drawPanel({ title, bars }: Panel, { left, top, width }: Place): string[] {
  const start = left + LABEL_WIDTH;
  const longest = Math.max(...bars.map(({ max }) => max), Number.MIN_VALUE);
  const scale = (width - LABEL_WIDTH - VALUE_WIDTH) / longest;
  const bottom = top + PANEL_HEAD + bars.length * BAR_PITCH;
  const axis = `<line class="axis" x1="${pixel(start)}" x2="${pixel(start)}" y1="${top + PANEL_HEAD - 4}" y2="${bottom}"/>`;
  const drawn = bars.flatMap((bar, index) => {
    const y = top + PANEL_HEAD + index * BAR_PITCH;
    const middle = y + BAR / 2;
    const at = (value: number) => pixel(start + value * scale);
    const weight = bar.isOurs ? ' font-weight="600"' : '';
    return [
      `<text x="${pixel(start - 8)}" y="${y + 12}" text-anchor="end"${weight}>${escaped(bar.label)}</text>`,
      `<rect class="${bar.isOurs ? 'ours' : 'bar'}" x="${pixel(start)}" y="${y}" width="${pixel(bar.median * scale)}" height="${BAR}"/>`,
      `<line class="range" x1="${at(bar.min)}" x2="${at(bar.max)}" y1="${middle}" y2="${middle}"/>`,
      `<text x="${pixel(start + bar.max * scale + 7)}" y="${y + 12}"${weight}>${numberText(bar.median)}</text>`,
    ];
  });
  return [`<text class="panel" x="${pixel(left)}" y="${top + 12}">${escaped(title)}</text>`, axis, ...drawn];
}

/** Three digits, because the measurement is not more precise. */
function numberText(value: number): string {
  if (value >= 100) return value.toFixed(0);
  return value.toFixed(value >= 10 ? 1 : 2);
}

function pixel(value: number): string {
  return String(Number(value.toFixed(1)));
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}
