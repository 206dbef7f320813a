/** What the demo prints. */

const MIB = 1024 * 1024;
const isPlain = !process.stdout.isTTY || (process.env['NO_COLOR'] ?? '') !== '';

let chapterNumber = 0;

/** A new part of the story: what happens now, and why. */
export function chapter(title: string, ...lines: string[]): void {
  chapterNumber += 1;
  heading(`${chapterNumber}. ${title}`);
  for (const line of lines) say(line);
}

export function heading(text: string): void {
  console.log(`\n${isPlain ? text : `\u001b[1m${text}\u001b[22m`}`);
}

export function say(line: string): void {
  console.log(`   ${line}`);
}

/** Something that was checked and holds. */
export function found(line: string): void {
  console.log(` ✓ ${line}`);
}

/** What a writer said, one clause a line. */
export function quote(who: string, words: string): void {
  console.log(` ✓ ${who} says: ${words.replaceAll('; ', ';\n      ')}`);
}

export interface Row {
  readonly version: number;
  readonly writers: string;
  readonly sizeBytes: number;
  readonly durationMs: number;
  readonly outcome: string;
}

const HEADER = ['version', 'writers', 'size', 'time', 'MiB/s', 'outcome'];
const IS_LEFT = [false, true, false, false, false, true];

export function table(rows: readonly Row[]): void {
  const lines = [HEADER, ...rows.map(cells)];
  const widths = HEADER.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  for (const line of lines) {
    const padded = line.map((cell, column) =>
      IS_LEFT[column] ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0),
    );
    say(padded.join('   ').trimEnd());
  }
}

function cells({ version, writers, sizeBytes, durationMs, outcome }: Row): string[] {
  const isDone = sizeBytes > 0;
  return [
    String(version),
    writers,
    isDone ? size(sizeBytes) : '–',
    durationMs > 0 ? seconds(durationMs) : '–',
    isDone ? String(Math.round(sizeBytes / MIB / (durationMs / 1000))) : '–',
    outcome,
  ];
}

export function size(bytes: number): string {
  return `${Math.round(bytes / MIB)} MiB`;
}

export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
