/** Findings for people, at most 80 columns wide. Pure. */

import { printable } from '../format.ts';
import type { Style, StyleName } from '../style.ts';
import type { Finding, FindingStatus } from './finding.ts';

const COLUMNS = 79; // A full line wraps on some terminals.
const STATUS_WIDTH = 8;
const TITLE_WIDTH = 17;
const DETAIL_INDENT = STATUS_WIDTH + 2;
const SEEN_INDENT = DETAIL_INDENT + TITLE_WIDTH + 2;

const TO_DO = 'to do';

/** Limit for naming checks that were not run. */
const NAMED_MAX = 8;

const WORDS: Readonly<Record<FindingStatus, readonly [word: string, color: StyleName]>> = {
  ok: ['ok', 'green'],
  degraded: ['degraded', 'yellow'],
  failed: ['failed', 'red'],
  'not-run': ['not run', 'dim'],
};

/** One line if all is well; otherwise what was observed and what it means. */
export function findingText(
  { status, title, seen, meaning }: Pick<Finding, 'status' | 'title' | 'seen' | 'meaning'>,
  style: Style,
): string {
  const [first = '', ...rest] = wrap(printable(seen), COLUMNS - SEEN_INDENT);
  return [
    `${statusText(status, style)}  ${title.padEnd(TITLE_WIDTH)}  ${first}`.trimEnd(),
    ...rest.map((line) => ' '.repeat(SEEN_INDENT) + line),
    ...(meaning === '' ? [] : indented(printable(meaning))),
  ].join('\n');
}

/** What to do about all problems, each advice once. */
export function toDoText(findings: readonly Finding[], style: Style): string[] {
  const byAdvice = Map.groupBy(
    findings.filter(({ status, advice }) => (status === 'failed' || status === 'degraded') && advice !== ''),
    ({ advice }) => advice,
  );
  return [...byAdvice].map(([advice, about], index) => {
    const titles = about.map(({ title }) => title).join(', ');
    const text = indented(printable(`${titles}: ${advice}`)).join('\n');
    return index > 0 ? text : style('bold', TO_DO) + text.slice(TO_DO.length);
  });
}

/** Checks that were not run, grouped by what prevented them. */
export function notRunText(findings: readonly Finding[], style: Style): string[] {
  const byCause = Map.groupBy(
    findings.filter(({ status }) => status === 'not-run'),
    ({ because }) => because,
  );
  return [...byCause].map(([because, kept]) => {
    const names = kept.map(({ title }) => title).join(', ');
    const which = kept.length > NAMED_MAX ? `${kept.length} other checks` : names;
    const text = `${which}: ${kept.length === 1 ? 'needs' : 'they need'} "${because}"`;
    const [first = '', ...rest] = wrap(text, COLUMNS - DETAIL_INDENT);
    return [
      `${statusText('not-run', style)}  ${first}`,
      ...rest.map((line) => ' '.repeat(DETAIL_INDENT) + line),
    ].join('\n');
  });
}

function statusText(status: FindingStatus, style: Style): string {
  const [word, color] = WORDS[status];
  return style(color, word) + ' '.repeat(STATUS_WIDTH - word.length);
}

function indented(text: string): string[] {
  return wrap(text, COLUMNS - DETAIL_INDENT).map((line) => ' '.repeat(DETAIL_INDENT) + line);
}

/** Wraps whole words. A word longer than a line gets its own line. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else {
      line = line === '' ? word : `${line} ${word}`;
    }
  }
  return line === '' ? lines : [...lines, line];
}
