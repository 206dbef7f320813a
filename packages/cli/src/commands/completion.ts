import type { Call, Command, CommandResult } from '../command.ts';
import { completionScript, SHELLS } from '../completion-script.ts';
import { noUris, takeOperands } from '../operands.ts';
import { checked } from '../option.ts';
import { parseChoice } from '../values.ts';

/** `commands`: all commands, including this one; called when the script is made. */
export function completionCommand(commands: () => readonly Command[]): Command {
  return {
    name: 'completion',
    group: 'Shell',
    summary: 'Print a completion script for a shell',
    operands: SHELLS.join('|'),
    options: [],
    examples: ['source <(holdfast completion bash)', 'holdfast completion fish > holdfast.fish'],
    run: async (call: Call): Promise<CommandResult> => {
      const operands = noUris(call.command, call.operands);
      const [name] = takeOperands(call.command, operands, ['a shell: bash, zsh or fish']);
      const shell = checked('InvalidArgument', 'shell', () => parseChoice(SHELLS)(name as string));
      const script = completionScript(shell, commands());
      return { text: script, json: { shell, script } };
    },
  };
}
