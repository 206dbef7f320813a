/** From the arguments to the command that is meant, or to a text that answers them. */

import { Command as CommanderCommand, type CommanderError, Option as CommanderOption, Help } from 'commander';
import type { Command } from './command.ts';
import { COMMANDS } from './commands/index.ts';
import { GLOBAL_OPTIONS } from './common-options.ts';
import { optionFromEnvironment } from './env.ts';
import { commandEpilogue, programHelp } from './help.ts';
import { type Option, readOption } from './option.ts';
import type { Environment, Sourced } from './sourced.ts';
import { usageError } from './usage-error.ts';

export type ParsedCommandLine =
  /** Help, or the version: to be printed, exit 0. */
  | { readonly kind: 'text'; readonly text: string }
  | {
      readonly kind: 'call';
      readonly command: Command;
      readonly operands: readonly string[];
      readonly values: OptionValues;
    };

/** By the option's name. */
export type OptionValues = ReadonlyMap<string, Sourced<unknown>>;

/** `InvalidArgument`: an unknown command or option (with the nearest one), too many operands, or a value that is refused. */
export function parseCommandLine(
  argv: readonly string[],
  env: Environment,
  programVersion: string,
): ParsedCommandLine {
  let printed = '';
  let chosen: { command: Command; operands: readonly string[]; parsed: CommanderCommand } | null = null;
  const program = createProgram(programVersion, (text) => {
    printed += text;
  });
  for (const command of COMMANDS) {
    const parsed = addCommand(program, command);
    parsed.action(() => {
      chosen = { command, operands: parsed.args, parsed };
    });
  }
  try {
    program.parse(argv, { from: 'user' });
  } catch (error) {
    return answer(error, printed, argv);
  }
  const { command, operands, parsed } = chosen as unknown as NonNullable<typeof chosen>;
  return { kind: 'call', command, operands, values: optionValues(command, [parsed, program], env) };
}

function createProgram(programVersion: string, print: (text: string) => void): CommanderCommand {
  const program = new CommanderCommand('holdfast')
    .enablePositionalOptions() // `--version` is the program's own before the command, and the checkpoint's after it
    .version(`holdfast ${programVersion}`, '-V, --version')
    .exitOverride()
    .configureOutput({ writeOut: print, writeErr: () => undefined, outputError: () => undefined })
    .configureHelp({ formatHelp: () => programHelp(COMMANDS) });
  addOptions(program, GLOBAL_OPTIONS, 'Output');
  return program;
}

function addCommand(program: CommanderCommand, command: Command): CommanderCommand {
  const parsed = program
    .command(command.name)
    .summary(command.summary)
    .description(
      command.description === undefined
        ? `${command.summary}.`
        : `${command.summary}.\n\n${command.description}`,
    )
    .usage(command.operands)
    .argument('[operands...]')
    .addHelpOption(new CommanderOption('-h, --help', 'print this help').helpGroup('Output:'))
    .configureHelp({ formatHelp: Help.prototype.formatHelp, visibleArguments: () => [], helpWidth: 100 })
    .addHelpText('after', commandEpilogue(command));
  addOptions(parsed, command.options, 'Options');
  addOptions(parsed, GLOBAL_OPTIONS, 'Output');
  return parsed;
}

function addOptions(parsed: CommanderCommand, options: readonly Option<unknown>[], group: string): void {
  for (const option of options) {
    const added = new CommanderOption(option.flags, option.help).helpGroup(`${group}:`);
    if (option.kind === 'list')
      added.argParser((text: string, previous: string[] | undefined) => [...(previous ?? []), text]);
    parsed.addOption(added);
  }
}

function answer(thrown: unknown, printed: string, argv: readonly string[]): ParsedCommandLine {
  const error = thrown as CommanderError;
  switch (error.code) {
    case 'commander.version':
    case 'commander.helpDisplayed':
    case 'commander.help':
      return { kind: 'text', text: printed || programHelp(COMMANDS) };
    default:
      throw error.code?.startsWith('commander.') ? explained(error, argv) : thrown;
  }
}

function explained(error: CommanderError, argv: readonly string[]): Error {
  const [what = '', ...hints] = error.message.replace(/^error: /, '').split('\n');
  const near = hints.map((line) => line.replace(/^\(Did you mean (.*)\?\)$/, 'did you mean $1?'));
  const command = COMMANDS.find(({ name }) => argv.includes(name));
  const list = command
    ? `\`holdfast ${command.name} --help\` lists its options`
    : '`holdfast` alone lists the commands';
  return usageError(what, [...near, list]);
}

// What stands before the command's name counts as well; an option wins over the environment.
function optionValues(command: Command, levels: readonly CommanderCommand[], env: Environment): OptionValues {
  const values = new Map<string, Sourced<unknown>>();
  for (const option of [...command.options, ...GLOBAL_OPTIONS]) {
    const found = fromArguments(option, levels) ?? optionFromEnvironment(option, env);
    if (found !== null) values.set(option.name, found);
  }
  return values;
}

function fromArguments(
  option: Option<unknown>,
  levels: readonly CommanderCommand[],
): Sourced<unknown> | null {
  for (const level of levels) {
    const declared = level.options.find((each) => each.long === `--${option.name}`);
    if (declared === undefined || level.getOptionValueSource(declared.attributeName()) !== 'cli') continue;
    if (level.parent === null && !GLOBAL_OPTIONS.some((global) => global.name === option.name)) continue;
    const source = `--${option.name}`;
    const given: unknown = level.getOptionValue(declared.attributeName());
    if (option.kind === 'flag') return { value: true, source };
    if (option.kind === 'list')
      return { value: (given as string[]).map((text) => readOption(option, text, 'arguments')), source };
    return { value: readOption(option, given as string, 'arguments'), source };
  }
  return null;
}
