/** What the demo prints. */

const MIB = 1024 * 1024;
const isPlain = !process.stdout.isTTY || (process.env['NO_COLOR'] ?? '') !== '';

let chapterNumber = 0;

/** Starts a new part of the story and explains what happens and why. */
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

/** Prints a checked fact. */
export function found(line: string): void {
  console.log(` ✓ ${line}`);
}

/** Prints the message of a process, one clause on each line. */
export function quote(who: string, words: string): void {
  console.log(` ✓ ${who} says: ${words.replaceAll(': ', ':\n      ')}`);
}

/**
 * Prints rows of cells under a header. Columns are as wide as their content. Numbers are aligned to
 * the right.
 */
export function table(header: readonly string[], rows: readonly (readonly string[])[]): void {
  const lines = [header, ...rows];
  const isLeft = header.map((_, column) => rows.some((row) => /[a-z]/.test(row[column] ?? '')));
  const widths = header.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  for (const line of lines) {
    const padded = line.map((cell, column) =>
      isLeft[column] ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0),
    );
    say(padded.join('   ').trimEnd());
  }
}

export function size(bytes: number): string {
  return `${Math.round(bytes / MIB)} MiB`;
}

export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

/** Formats a loss or an area under the curve. */
export function measure(value: number): string {
  return value.toFixed(4);
}
