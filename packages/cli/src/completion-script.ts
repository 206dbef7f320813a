/** Completion scripts: words of commands and options, choices of values, file names for the rest. Pure. */

import type { Command } from './command.ts';
import { GLOBAL_OPTIONS } from './common-options.ts';
import type { Option } from './option.ts';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

/** The whole script, without a newline at its end. */
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

/** What `completion` takes as its operand. */
const operandChoices = (command: Command): readonly string[] => (command.name === 'completion' ? SHELLS : []);

function bash(commands: readonly Command[]): string {
  const names = commands.map((command) => command.name).join(' ');
  const choices = new Map(commands.flatMap(optionsOf).map((option) => [`--${option.name}`, option.choices]));
  const values = [...choices].filter(([, words]) => words.length > 0);
  return `# bash completion for holdfast
_holdfast() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} command=\${COMP_WORDS[1]}
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "${names} --help --version" -- "$current"))
    return
  fi
  case $previous in
${values.map(([flag, words]) => `    ${flag}) COMPREPLY=($(compgen -W "${words.join(' ')}" -- "$current")); return ;;`).join('\n')}
  esac
  case $command in
${commands.map((command) => `    ${command.name}) local options="${bashOptions(command)}" operands="${operandChoices(command).join(' ')}" ;;`).join('\n')}
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
  const described = commands.map((command) => `    '${command.name}:${zshText(command.summary)}'`).join('\n');
  const cases = commands
    .map((command) => `    ${command.name}) _arguments ${zshArguments(command)} ;;`)
    .join('\n');
  return `#compdef holdfast
_holdfast() {
  local -a commands=(
${described}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
${cases}
  esac
}
if [ "$funcstack[1]" = _holdfast ]; then _holdfast "$@"; else compdef _holdfast holdfast; fi`;
}

function zshArguments(command: Command): string {
  const options = optionsOf(command).map((option) => {
    const repeat = option.kind === 'list' ? '*' : '';
    const value =
      option.kind === 'flag'
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
  for (const command of commands) {
    lines.push(
      `complete -c holdfast -f -n __fish_use_subcommand -a ${command.name} -d ${fishText(command.summary)}`,
    );
    const here = `complete -c holdfast -n '__fish_seen_subcommand_from ${command.name}'`;
    for (const option of optionsOf(command)) {
      const value =
        option.kind === 'flag'
          ? ''
          : option.choices.length > 0
            ? ` -x -a '${option.choices.join(' ')}'`
            : ' -r';
      lines.push(`${here} -l ${option.name}${value} -d ${fishText(option.help)}`);
    }
    const operands = operandChoices(command);
    if (operands.length > 0) lines.push(`${here} -f -a '${operands.join(' ')}'`);
  }
  return lines.join('\n');
}

function fishText(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}
