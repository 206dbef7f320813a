/**
 * Completion scripts: names of commands and options, choices of values, and file names for all
 * else. Pure.
 */

import type { Command } from './command.ts';
import { GLOBAL_OPTIONS } from './common-options.ts';
import type { Option } from './option.ts';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

/** The whole script, without a final newline. */
export function completionScript(shell: Shell, commands: readonly Command[]): string {
  switch (shell) {
    case 'bash':
      return bash(commands);
    case 'zsh':
      return zsh(commands);
    case 'fish':
      return fish(commands);
  }
}

const optionsOf = (command: Command): readonly Option<unknown>[] => [...command.options, ...GLOBAL_OPTIONS];

const isFlag = ({ kind }: Option<unknown>) => kind === 'flag' || kind === 'flag-or-word';

/** Operands of `completion`. */
const operandChoices = (command: Command): readonly string[] => (command.name === 'completion' ? SHELLS : []);

/** The possible first words, each with its commands: `elasticdl` has several. */
function wordsOf(commands: readonly Command[]): ReadonlyMap<string, readonly Command[]> {
  const first = (command: Command) => command.name.split(' ')[0] as string;
  return Map.groupBy(commands, first);
}

const isFamily = (word: string, members: readonly Command[]) => members[0]?.name !== word;

const lastWord = ({ name }: Command): string => name.split(' ').at(-1) as string;

function bash(commands: readonly Command[]): string {
  const words = wordsOf(commands);
  const families = [...words].filter(([word, members]) => isFamily(word, members));
  const choices = new Map(commands.flatMap(optionsOf).map((option) => [`--${option.name}`, option.choices]));
  const values = [...choices].filter(([, words]) => words.length > 0);
  return `# bash completion for holdfast
_holdfast() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} command=\${COMP_WORDS[1]}
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "${[...words.keys()].join(' ')} --help --version" -- "$current"))
    return
  fi
  case $command in
${families.map(([word, members]) => `    ${word}) local family="${members.map(lastWord).join(' ')}" ;;`).join('\n')}
    *) local family="" ;;
  esac
  if [ -n "$family" ]; then
    if [ "$COMP_CWORD" -eq 2 ]; then
      COMPREPLY=($(compgen -W "$family --help" -- "$current"))
      return
    fi
    command="$command \${COMP_WORDS[2]}"
  fi
  case $previous in
${values.map(([flag, words]) => `    ${flag}) COMPREPLY=($(compgen -W "${words.join(' ')}" -- "$current")); return ;;`).join('\n')}
  esac
  case $command in
${commands.map((command) => `    "${command.name}") local options="${bashOptions(command)}" operands="${operandChoices(command).join(' ')}" ;;`).join('\n')}
    *) return ;;
  esac
  case $current in
    -*) COMPREPLY=($(compgen -W "$options --help" -- "$current")) ;;
    *) COMPREPLY=($(compgen -W "$operands" -- "$current")) ;;
  esac
}
complete -o default -F _holdfast holdfast`;
}

function bashOptions(command: Command): string {
  return optionsOf(command)
    .map((option) => `--${option.name}`)
    .join(' ');
}

function zsh(commands: readonly Command[]): string {
  const words = wordsOf(commands);
  return `#compdef holdfast
_holdfast() {
${zshChoice(
  [...words].map(([word, members]) => ({
    word,
    about: isFamily(word, members) ? `commands for ${members[0]?.group}` : (members[0]?.summary ?? ''),
  })),
  '  ',
)}
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
${[...words].map(([word, members]) => (isFamily(word, members) ? zshFamily(word, members) : zshCase(members[0] as Command, '    '))).join('\n')}
  esac
}
if [ "$funcstack[1]" = _holdfast ]; then _holdfast "$@"; else compdef _holdfast holdfast; fi`;
}

/** Offers words with a description each, at the position of the second word. */
function zshChoice(words: readonly { word: string; about: string }[], indent: string): string {
  const described = words.map(({ word, about }) => `  '${word}:${zshText(about)}'`);
  return [
    'local -a commands=(',
    ...described,
    ')',
    'if (( CURRENT == 2 )); then',
    '  _describe command commands',
    '  return',
    'fi',
  ]
    .map((line) => `${indent}${line}`)
    .join('\n');
}

function zshFamily(family: string, members: readonly Command[]): string {
  const choice = zshChoice(
    members.map((command) => ({ word: lastWord(command), about: command.summary })),
    '      ',
  );
  return `    ${family})
${choice}
      command=$words[2]
      shift words
      (( CURRENT-- ))
      case $command in
${members.map((command) => zshCase(command, '        ')).join('\n')}
      esac ;;`;
}

function zshCase(command: Command, indent: string): string {
  return `${indent}${lastWord(command)}) _arguments ${zshArguments(command)} ;;`;
}

function zshArguments(command: Command): string {
  const options = optionsOf(command).map((option) => {
    const repeat = option.kind === 'list' ? '*' : '';
    const value = isFlag(option)
      ? ''
      : `:value:${option.choices.length > 0 ? `(${option.choices.join(' ')})` : '_files'}`;
    return `'${repeat}--${option.name}[${zshText(option.help)}]${value}'`;
  });
  const operands = operandChoices(command);
  return [
    ...options,
    operands.length > 0 ? `'1:operand:(${operands.join(' ')})'` : "'*:operand:_files'",
  ].join(' ');
}

function zshText(text: string): string {
  return text.replaceAll("'", "'\\''").replace(/[[\]:]/g, '\\$&');
}

function fish(commands: readonly Command[]): string {
  const lines = ['# fish completion for holdfast'];
  for (const [word, members] of wordsOf(commands)) {
    const offer = `complete -c holdfast -f -n __fish_use_subcommand -a ${word}`;
    if (!isFamily(word, members)) {
      const [command] = members as [Command];
      lines.push(`${offer} -d ${fishText(command.summary)}`);
      lines.push(...fishOptions(command, `__fish_seen_subcommand_from ${word}`));
      continue;
    }
    lines.push(`${offer} -d ${fishText(`commands for ${members[0]?.group}`)}`);
    const inFamily = `__fish_seen_subcommand_from ${word}`;
    const names = members.map(lastWord).join(' ');
    for (const command of members) {
      const isFirst = `${inFamily}; and not __fish_seen_subcommand_from ${names}`;
      lines.push(
        `complete -c holdfast -f -n '${isFirst}' -a ${lastWord(command)} -d ${fishText(command.summary)}`,
        ...fishOptions(command, `${inFamily}; and __fish_seen_subcommand_from ${lastWord(command)}`),
      );
    }
  }
  return lines.join('\n');
}

/** `condition`: code for fish that is true once the name of the command was typed. */
function fishOptions(command: Command, condition: string): string[] {
  const here = `complete -c holdfast -n '${condition}'`;
  const lines = optionsOf(command).map((option) => {
    const value = isFlag(option)
      ? ''
      : option.choices.length > 0
        ? ` -x -a '${option.choices.join(' ')}'`
        : ' -r';
    return `${here} -l ${option.name}${value} -d ${fishText(option.help)}`;
  });
  const operands = operandChoices(command);
  return operands.length > 0 ? [...lines, `${here} -f -a '${operands.join(' ')}'`] : lines;
}

function fishText(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}
