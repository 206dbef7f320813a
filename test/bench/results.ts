/** Tables and files of results, and their targets. */

import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, release, tmpdir } from 'node:os';
import { join } from 'node:path';
import { say } from './options.ts';
import { median, spread } from './statistics.ts';

/** A target and the measured values. */
export interface Verdict {
  readonly what: string;
  /** One value per round. */
  readonly values: readonly number[];
  /** Without a target the value is reported and not judged. */
  readonly wanted?: { readonly atLeast: number } | { readonly atMost: number } | undefined;
}

/** The median decides. */
export function isMet({ values, wanted }: Verdict): boolean {
  if (wanted === undefined) return true;
  const value = median(values);
  return 'atLeast' in wanted ? value >= wanted.atLeast : value <= wanted.atMost;
}

export function verdictTable(verdicts: readonly Verdict[]): string {
  const rows = verdicts.map((verdict) => {
    const { what, values, wanted } = verdict;
    if (wanted === undefined) return [what, '', spread(values), ''];
    const limit = 'atLeast' in wanted ? `≥ ${wanted.atLeast}` : `≤ ${wanted.atMost}`;
    return [what, limit, spread(values), isMet(verdict) ? 'yes' : '**no**'];
  });
  return markdownTable(['what', 'wanted', 'found', 'met'], rows);
}

export function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** Ratios of `a` to `b` for each round. Both are in the order of their rounds. */
export function ratios(a: readonly number[], b: readonly number[]): number[] {
  return a.slice(0, b.length).map((value, round) => value / (b[round] ?? Number.NaN));
}

/** The machine, in one line. */
export function machineText(): string {
  return `${availableParallelism()} × ${cpus()[0]?.model ?? 'cpu'}, Linux ${release()}, Node ${process.version}`;
}

/** Writes the files to `out` or to a new directory, and prints the Markdown to stdout. */
export function publish(
  name: string,
  { markdown, json, charts }: { markdown: string; json: object; charts: Readonly<Record<string, string>> },
  out: string | undefined,
): void {
  const directory = out ?? mkdtempSync(join(tmpdir(), 'holdfast-bench-results-'));
  mkdirSync(directory, { recursive: true });
  const taken = { ...json, takenAt: new Date().toISOString() };
  writeFileSync(join(directory, `${name}.json`), `${JSON.stringify(taken, null, 1)}\n`);
  writeFileSync(join(directory, `${name}.md`), markdown);
  for (const [file, svg] of Object.entries(charts)) writeFileSync(join(directory, file), svg);
  process.stdout.write(`${markdown}\n`);
  say(`written to ${directory}`);
}
