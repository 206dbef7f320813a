/**
 * Finds variables that begin like ours and that no code reads: most likely typing errors, which
 * would otherwise go unnoticed.
 */

import { COMMANDS } from './commands/index.ts';
import { GLOBAL_OPTIONS } from './common-options.ts';
import type { Environment } from './sourced.ts';

const PREFIX = 'HOLDFAST_';
/** Read by the stores, by other programs around the command, or by other commands. */
const OTHER_NAMES = [
  'HOLDFAST_URI',
  'HOLDFAST_CACHE',
  'HOLDFAST_REQUIRE',
  'HOLDFAST_S3_CUSTOMER_KEY',
  'HOLDFAST_GCS_CUSTOMER_KEY',
  'HOLDFAST_AZURE_CUSTOMER_KEY',
  // The Python client.
  'HOLDFAST_AGENT',
  'HOLDFAST_AGENT_CONFIG',
  'HOLDFAST_AGENT_START',
  'HOLDFAST_AGENT_TOKEN_FILE',
  'HOLDFAST_AGENT_UID',
  'HOLDFAST_ATTEMPT',
  'HOLDFAST_COMMAND',
];
const TEST_PREFIX = 'HOLDFAST_TEST_';
/** Names with more differences than these are not similar. */
const CHANGES_MAX = 3;

/**
 * One line for each such variable, with the most similar known name. Values are never shown: they
 * may be secrets.
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

/** The known name that contains all its words, otherwise the one with the fewest differences. */
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

/** Levenshtein distance: the number of letters to insert, delete or replace. */
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
