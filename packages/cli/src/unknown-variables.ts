/**
 * Variables whose name begins as ours do and that nothing reads: most likely a typing error, which
 * would otherwise go unnoticed.
 */

import { COMMANDS } from './commands/index.ts';
import { GLOBAL_OPTIONS } from './common-options.ts';
import type { Environment } from './sourced.ts';

const PREFIX = 'HOLDFAST_';
/**
 * Read by the stores, by the programs around the command, or by other commands than the one at
 * hand.
 */
const OTHER_NAMES = [
  'HOLDFAST_URI',
  'HOLDFAST_CACHE',
  'HOLDFAST_REQUIRE',
  'HOLDFAST_S3_CUSTOMER_KEY',
  'HOLDFAST_GCS_CUSTOMER_KEY',
  'HOLDFAST_AZURE_CUSTOMER_KEY',
];
const TEST_PREFIX = 'HOLDFAST_TEST_';
/** With more changes than these, two names are not alike. */
const CHANGES_MAX = 3;

/**
 * One line for each such variable, with the name that was probably meant. Values are never shown:
 * they may be secrets.
 */
export function unknownVariables(env: Environment): string[] {
  const known = knownNames();
  const unknown = Object.keys(env).filter(
    (name) => name.startsWith(PREFIX) && !name.startsWith(TEST_PREFIX) && env[name] && !known.has(name),
  );
  return unknown.sort().map((name) => {
    const near = nearestName(name, known);
    return `${name} is set, and nothing reads it${near === null ? '' : `; did you mean ${near}?`}`;
  });
}

function knownNames(): ReadonlySet<string> {
  const options = [...GLOBAL_OPTIONS, ...COMMANDS.flatMap((command) => command.options)];
  return new Set([...OTHER_NAMES, ...options.map((option) => option.envName)]);
}

/** The name with all its words and more, else the one that the fewest changes lead to. */
function nearestName(name: string, known: ReadonlySet<string>): string | null {
  const words = name.slice(PREFIX.length).split('_');
  const longer = [...known].find((each) => {
    const others = each.slice(PREFIX.length).split('_');
    return words.every((word) => others.includes(word));
  });
  if (longer !== undefined) return longer;
  const near = [...known]
    .map((each) => ({ each, changes: changesBetween(name, each) }))
    .filter(({ changes }) => changes <= CHANGES_MAX)
    .sort((a, b) => a.changes - b.changes);
  return near[0]?.each ?? null;
}

/** How many letters must be put in, taken out or replaced: the distance of Levenshtein. */
function changesBetween(a: string, b: string): number {
  let above = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let row = 1; row <= a.length; row += 1) {
    const here = [row];
    for (let at = 1; at <= b.length; at += 1) {
      const replaced = (above[at - 1] as number) + (a[row - 1] === b[at - 1] ? 0 : 1);
      here.push(Math.min(replaced, (above[at] as number) + 1, (here[at - 1] as number) + 1));
    }
    above = here;
  }
  return above[b.length] as number;
}
