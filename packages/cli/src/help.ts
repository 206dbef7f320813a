/** Texts of `--help`. */

import type { Command, CommandGroup } from './command.ts';

const GROUPS: readonly CommandGroup[] = [
  'Save and restore',
  'Look',
  'Keep tidy',
  'Trust',
  'ElasticDL',
  'Shell',
];

/** Help of the program: the commands in groups. */
export function programHelp(commands: readonly Command[]): string {
  const width = Math.max(...commands.map((command) => term(command).length));
  const groups = GROUPS.map((group) => {
    const members = commands.filter((command) => command.group === group);
    return [`${group}:`, ...members.map((command) => line(command, width)), ''].join('\n');
  });
  return `Saves checkpoints of a training job and restores them, complete and verified, or not at all.

Usage: holdfast COMMAND [operands] [options]

${groups.join('\n')}
A URI names a run, such as file:///data/runs/gpt; HOLDFAST_URI is used if it is omitted.
\`holdfast COMMAND --help\` shows the options of a command, and examples; \`holdfast --version\` prints the version.
`;
}

/** Help of the commands whose first word is `family`. */
export function familyHelp(family: string, commands: readonly Command[]): string {
  const members = commands.filter(({ name }) => name.startsWith(`${family} `));
  const width = Math.max(...members.map((command) => term(command).length));
  return `Usage: holdfast ${family} COMMAND [operands] [options]

${members.map((command) => line(command, width)).join('\n')}

\`holdfast ${family} COMMAND --help\` shows the options of a command, and examples.
`;
}

const term = ({ name, operands }: Command) => `${name} ${operands}`.trim();
const line = (command: Command, width: number) => `  ${term(command).padEnd(width)}   ${command.summary}`;

/** Text after the options of a command. */
export function commandEpilogue(command: Command): string {
  const examples = command.examples.map((line) => `  $ ${line}`).join('\n');
  const variable = command.options[0]?.envName ?? 'HOLDFAST_JSON';
  return `${examples === '' ? '' : `\nExamples:\n${examples}\n`}\nEvery option has an environment name, such as ${variable}; the option overrides it.`;
}
