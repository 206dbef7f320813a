/** What `--help` says. */

import type { Command, CommandGroup } from './command.ts';

const GROUPS: readonly CommandGroup[] = ['Save and restore', 'Look', 'Keep tidy', 'Trust', 'Shell'];

/** The program's own: the commands in groups. */
export function programHelp(commands: readonly Command[]): string {
  const term = (command: Command) => `${command.name} ${command.operands}`.trim();
  const width = Math.max(...commands.map((command) => term(command).length));
  const groups = GROUPS.map((group) => {
    const members = commands.filter((command) => command.group === group);
    const lines = members.map((command) => `  ${term(command).padEnd(width)}   ${command.summary}`);
    return [`${group}:`, ...lines, ''].join('\n');
  });
  return `Saves checkpoints of a training job and restores them, whole and verified, or not at all.

Usage: holdfast COMMAND [operands] [options]

${groups.join('\n')}
A URI names a run, such as file:///data/runs/gpt; HOLDFAST_URI stands in for one that is left out.
\`holdfast COMMAND --help\` shows the options of a command, and examples; \`holdfast --version\` prints the version.
`;
}

/** What follows the options of a command. */
export function commandEpilogue(command: Command): string {
  const examples = command.examples.map((line) => `  $ ${line}`).join('\n');
  const variable = command.options[0]?.envName ?? 'HOLDFAST_JSON';
  return `${examples === '' ? '' : `\nExamples:\n${examples}\n`}\nEvery option has an environment name, such as ${variable}; the option wins.`;
}
