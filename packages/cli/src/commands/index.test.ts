import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { GLOBAL_OPTIONS } from '../common-options.ts';
import { COMMANDS } from './index.ts';

const MANUAL = readFileSync(new URL('../../../../docs/cli.md', import.meta.url), 'utf8');

/** Names of commands in the first column of the table below a heading. */
function namesBelow(heading: string): string[] {
  const table = MANUAL.slice(MANUAL.indexOf(heading)).split('\n\n')[0] as string;
  const rows = table.split('\n').slice(2);
  return rows.flatMap((row) =>
    Array.from(
      (row.split(' | ')[0] as string).matchAll(/`((?:elasticdl )?[a-z]+)/g),
      ([, name]) => name as string,
    ),
  );
}

describe('docs/cli.md', () => {
  const names = COMMANDS.map(({ name }) => name).sort();

  it.each(['| command | what it does |', '| command | fields |'])(
    'the table "%s" has every command, and no other',
    (heading) => {
      expect([...new Set(namesBelow(heading))].sort()).toEqual(names);
    },
  );

  it('names every option', () => {
    const options = [...COMMANDS.flatMap((command) => command.options), ...GLOBAL_OPTIONS];
    const missing = options.filter(({ name }) => !new RegExp(`--${name}(?![a-z-])`).test(MANUAL));
    expect(missing.map(({ name }) => name)).toEqual([]);
  });
});
