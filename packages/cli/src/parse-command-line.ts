/** Parses the arguments to a command, or to a text to print. */

import { Command as CommanderCommand, type CommanderError, Option as CommanderOption, Help } from 'commander';
import type { Command } from './command.ts';
import { COMMANDS } from './commands/index.ts';
import { GLOBAL_OPTIONS, OUTPUT_OPTIONS, storeModule } from './common-options.ts';
import { optionFromEnvironment } from './env.ts';
import { commandEpilogue, familyHelp, programHelp } from './help.ts';
import { type Option, readOption } from './option.ts';
import type { Environment, Sourced } from './sourced.ts';
import { usageError } from './usage-error.ts';

export type ParsedCommandLine =
  /** Help, or the version: printed with exit status 0. */
  | { readonly kind: 'text'; readonly text: string }
  | {
      readonly kind: 'call';
      readonly command: Command;
      readonly operands: readonly string[];
      readonly values: OptionValues;
    };

/** By the option's name. */
export type OptionValues = ReadonlyMap<string, Sourced<unknown>>;

/**
 * Throws `InvalidArgument` for an unknown command or option (with the nearest one), too many
 * operands, or an invalid value.
 */
export function parseCommandLine(
  argv: readonly string[],
  env: Environment,
  programVersion: string,
): ParsedCommandLine {
  const { program, outcome } = createProgram(programVersion);
  for (const command of COMMANDS) addCommand(parentOf(command, program, outcome), command, outcome);
  try {
    program.parse(argv, { from: 'user' });
  } catch (error) {
    return answer(error, outcome);
  }
  const { command, operands, levels } = outcome.chosen as Chosen;
  return { kind: 'call', command, operands, values: optionValues(command, levels, env) };
}

/** Result of the parsing. */
interface Outcome {
  printed: string;
  chosen: Chosen | null;
  /** The words before which parsing ended without a call: a command, a family, or empty. */
  endedAt: string;
}

interface Chosen {
  readonly command: Command;
  readonly operands: readonly string[];
  /** The command, its family if it has one, and the program. */
  readonly levels: readonly CommanderCommand[];
}

function createProgram(programVersion: string): { program: CommanderCommand; outcome: Outcome } {
  const outcome: Outcome = { printed: '', chosen: null, endedAt: '' };
  const print = (text: string) => {
    outcome.printed += text;
  };
  const program = new CommanderCommand('holdfast')
    // `--version` before the command is the program's, after it the checkpoint's.
    .enablePositionalOptions()
    .version(`holdfast ${programVersion}`, '-V, --version')
    .exitOverride()
    .configureOutput({ writeOut: print, writeErr: () => undefined, outputError: () => undefined })
    .configureHelp({ formatHelp: () => programHelp(COMMANDS) });
  addGlobalOptions(program);
  return { program, outcome };
}

/** Parent of a command: the program, or the family named by its first word. */
function parentOf(command: Command, program: CommanderCommand, outcome: Outcome): CommanderCommand {
  const family = familyOf(command);
  if (family === null) return program;
  const known = program.commands.find((each) => each.name() === family);
  if (known !== undefined) return known;
  const parsed = program
    .command(family)
    .enablePositionalOptions()
    .configureHelp({ formatHelp: () => familyHelp(family, COMMANDS) });
  noteEnd(parsed, family, outcome);
  addGlobalOptions(parsed);
  return parsed;
}

function familyOf({ name }: Command): string | null {
  const at = name.indexOf(' ');
  return at === -1 ? null : name.slice(0, at);
}

function noteEnd(parsed: CommanderCommand, words: string, outcome: Outcome): void {
  parsed.exitOverride((error) => {
    outcome.endedAt = words;
    throw error;
  });
}

function addCommand(parent: CommanderCommand, command: Command, outcome: Outcome): void {
  const parsed = parent
    .command(command.name.split(' ').at(-1) as string)
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
  noteEnd(parsed, command.name, outcome);
  takeWordsApart(parsed, command.options);
  addOptions(parsed, command.options, 'Options');
  addGlobalOptions(parsed);
  parsed.action(() => {
    const levels = parent.parent === null ? [parsed, parent] : [parsed, parent, parent.parent];
    outcome.chosen = { command, operands: parsed.args, levels };
  });
}

function addGlobalOptions(parsed: CommanderCommand): void {
  addOptions(parsed, OUTPUT_OPTIONS, 'Output');
  addOptions(parsed, [storeModule], 'Stores');
}

function addOptions(parsed: CommanderCommand, options: readonly Option<unknown>[], group: string): void {
  for (const option of options) {
    const added = new CommanderOption(option.flags, option.help).helpGroup(`${group}:`);
    if (option.kind === 'list')
      added.argParser((text: string, previous: string[] | undefined) => [...(previous ?? []), text]);
    parsed.addOption(added);
  }
}

/** commander would take the argument after a plain `--replace` for its word. */
function takeWordsApart(parsed: CommanderCommand, options: readonly Option<unknown>[]): void {
  const bare = new Set(options.filter(({ kind }) => kind === 'flag-or-word').map(({ name }) => `--${name}`));
  if (bare.size === 0) return;
  const parseOptions = parsed.parseOptions.bind(parsed);
  parsed.parseOptions = (argv) => {
    const end = argv.indexOf('--');
    const isOption = (at: number) => end === -1 || at < end;
    return parseOptions(argv.map((text, at) => (isOption(at) && bare.has(text) ? `${text}=yes` : text)));
  };
}

function answer(thrown: unknown, { printed, endedAt }: Outcome): ParsedCommandLine {
  const error = thrown as CommanderError;
  switch (error.code) {
    case 'commander.version':
    case 'commander.helpDisplayed':
      return { kind: 'text', text: printed };
    case 'commander.help': // Requested with `help`, or no command was given.
      return {
        kind: 'text',
        text: printed || (endedAt === '' ? programHelp(COMMANDS) : familyHelp(endedAt, COMMANDS)),
      };
    default:
      throw error.code?.startsWith('commander.') ? explained(error, endedAt) : thrown;
  }
}

function explained(error: CommanderError, endedAt: string): Error {
  const [, told = '', hint] =
    /^error: (.*?)(?:\n\(Did you mean ([a-z, -]+)\?\))?$/s.exec(error.message) ?? [];
  const what = told.replace(/ '(.*)'$/s, (_, word: string) => nameAlone(word));
  const near = hint === undefined ? [] : [`did you mean ${hint}?`];
  const isCommand = COMMANDS.some(({ name }) => name === endedAt);
  const list = isCommand
    ? `\`holdfast ${endedAt} --help\` lists its options`
    : `\`${['holdfast', endedAt].join(' ').trim()}\` alone lists the commands`;
  return usageError(what, [...near, list]);
}

/** Shortens an unknown word: a URI, or the text after a `=`, may hold a secret. */
function nameAlone(word: string): string {
  const [name = ''] = word.split('=');
  return /^-{0,2}[a-z][a-z-]*$/.test(name) ? ` '${name}'` : '';
}

// Options before the command's name count as well. An option overrides the environment.
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
