import { type CheckpointError, isCheckpointError } from '@holdfast/core/contract';
import { describe, expect, it } from 'vitest';
import { COMMANDS } from './commands/index.ts';
import { GLOBAL_OPTIONS } from './common-options.ts';
import { parseCommandLine } from './parse-command-line.ts';
import type { Environment } from './sourced.ts';

const parse = (argv: string[], env: Environment = {}) => parseCommandLine(argv, env, '1.2.3');

function call(argv: string[], env: Environment = {}) {
  const parsed = parse(argv, env);
  if (parsed.kind !== 'call') throw new Error(`expected a call, got the text: ${parsed.text}`);
  return parsed;
}

function text(argv: string[]): string {
  const parsed = parse(argv);
  if (parsed.kind !== 'text') throw new Error(`expected a text, got the command ${parsed.command.name}`);
  return parsed.text;
}

function errorOf(argv: string[], env: Environment = {}): CheckpointError {
  try {
    parse(argv, env);
  } catch (error) {
    if (isCheckpointError(error)) return error;
    throw error;
  }
  throw new Error('it was accepted');
}

describe('texts', () => {
  it('alone, it prints every command under its group', () => {
    const printed = text([]);
    for (const command of COMMANDS) {
      expect(printed).toContain(`  ${command.name} ${command.operands}`);
      expect(printed).toContain(`${command.group}:`);
      expect(printed).toContain(command.summary);
    }
    expect(text(['--help'])).toBe(printed);
    expect(text(['help'])).toBe(printed);
    expect(text(['help', 'save'])).toBe(text(['save', '--help']));
  });

  it('--version is the version of the program before a command, and of the checkpoint after it', () => {
    expect(text(['--version'])).toBe('holdfast 1.2.3\n');
    expect(call(['show', 'memory://a', '--version', '7']).values.get('version')?.value).toBe(7n);
  });

  it.each(COMMANDS.map((command) => command.name))(
    '%s --help shows its options, those of every command, and examples',
    (name) => {
      const command = COMMANDS.find((each) => each.name === name);
      const printed = text([...name.split(' '), '--help']);
      for (const option of [...(command?.options ?? []), ...GLOBAL_OPTIONS])
        expect(printed).toContain(`--${option.name}`);
      for (const example of command?.examples ?? []) expect(printed).toContain(`$ ${example}`);
      expect(printed).toContain(`Usage: holdfast ${name} ${command?.operands}`);
    },
  );

  it('a family of commands, alone, prints those in it', () => {
    const printed = text(['elasticdl']);
    const family = COMMANDS.filter(({ name }) => name.startsWith('elasticdl '));
    expect(family).not.toEqual([]);
    for (const command of family) expect(printed).toContain(`  ${command.name} ${command.operands}`);
    expect(printed).not.toContain('save');
    expect(text(['elasticdl', '--help'])).toBe(printed);
    expect(text(['help', 'elasticdl'])).toBe(printed);
    expect(text(['elasticdl', 'help'])).toBe(printed);
  });

  it('options of one command do not share a name in the environment', () => {
    for (const command of COMMANDS) {
      const names = [...command.options, ...GLOBAL_OPTIONS].map((option) => option.envName);
      expect(new Set(names).size).toBe(names.length);
    }
  });
});

describe('calls', () => {
  it('options may stand anywhere after the command, and those of every command before it too', () => {
    const parsed = call(['--json', 'save', '--version', '3', './a', '--writer=1/2', 'memory://a', '-q']);
    expect(parsed.operands).toEqual(['./a', 'memory://a']);
    expect(Object.fromEntries([...parsed.values].map(([name, { value }]) => [name, value]))).toEqual({
      json: true,
      quiet: true,
      version: 3n,
      writer: { index: 1, count: 2 },
    });
  });

  it('a command of two words takes options of every command before, between and after them', () => {
    const parsed = call(['--json', 'elasticdl', '-q', 'best', 'memory://a', '--metric', 'auc', '--no-color']);
    expect(parsed.command.name).toBe('elasticdl best');
    expect(parsed.operands).toEqual(['memory://a']);
    expect([...parsed.values.keys()].sort()).toEqual(['json', 'metric', 'no-color', 'quiet']);
  });

  it('what may be repeated is kept in order', () => {
    const parsed = call(['save', 'a', 'memory://a', '--metric', 'loss=2', '--metric', 'auc=0.5']);
    expect(parsed.values.get('metric')?.value).toEqual([
      ['loss', 2],
      ['auc', 0.5],
    ]);
  });

  it('flags of the negative kind are on when they are given', () => {
    const parsed = call(['save', 'a', 'memory://a', '--no-wait', '--no-color']);
    expect(parsed.values.get('no-wait')?.value).toBe(true);
    expect(parsed.values.get('no-color')?.value).toBe(true);
    expect(call(['save', 'a', 'memory://a']).values.size).toBe(0);
  });

  it('a flag that may have a word takes it behind "=" only', () => {
    const replace = (...args: string[]) => {
      const parsed = call(['restore', ...args]);
      return [parsed.values.get('replace')?.value, parsed.operands];
    };
    expect(replace('--replace', 'memory://a', 'out')).toEqual([true, ['memory://a', 'out']]);
    expect(replace('memory://a', '--replace=everything', 'out')).toEqual([
      'everything',
      ['memory://a', 'out'],
    ]);
    expect(replace('memory://a', '--', '--replace')).toEqual([undefined, ['memory://a', '--replace']]);
    expect(() => replace('memory://a', 'out', '--replace=all')).toThrow(
      '--replace: "all" cannot be replaced',
    );
    const fromEnvironment = (text: string) =>
      call(['restore', 'memory://a', 'out'], { HOLDFAST_REPLACE: text }).values.get('replace')?.value;
    expect(['1', '0', 'everything'].map(fromEnvironment)).toEqual([true, undefined, 'everything']);
  });

  it('an option wins over the environment, and each says where it came from', () => {
    const env = { HOLDFAST_TIMEOUT: '1m', HOLDFAST_ATTEMPT: 'env' };
    const { values } = call(['save', 'a', 'memory://a', '--timeout', '30s'], env);
    expect(values.get('timeout')).toEqual({ value: 30_000, source: '--timeout' });
    expect(values.get('attempt')).toEqual({ value: 'env', source: 'HOLDFAST_ATTEMPT' });
  });

  it('after -- everything is an operand', () => {
    expect(call(['save', 'memory://a', '--', '--odd-name']).operands).toEqual(['memory://a', '--odd-name']);
  });
});

describe('mistakes', () => {
  it.each<[string[], string, string]>([
    [['lsit'], "unknown command 'lsit'", 'did you mean list?'],
    [['save', 'a', 'memory://a', '--tiemout', '3s'], "unknown option '--tiemout'", 'did you mean --timeout?'],
    [['restore', 'memory://a', 'd', '--ony', '*'], "unknown option '--ony'", 'did you mean --only?'],
    [['elasticdl', 'bset'], "unknown command 'bset'", 'did you mean best?'],
    [['elasticdl', 'save'], "unknown command 'save'", '`holdfast elasticdl` alone lists the commands'],
    [['elasticdl', 'best', '--metrc', 'auc'], "unknown option '--metrc'", 'did you mean --metric?'],
    [
      ['elasticdl', 'best', '-x'],
      "unknown option '-x'",
      '`holdfast elasticdl best --help` lists its options',
    ],
    [['elastcdl', 'best'], "unknown command 'elastcdl'", 'did you mean elasticdl?'],
    [['list', '--frobnicate'], "unknown option '--frobnicate'", '`holdfast list --help` lists its options'],
    [
      ['save', 'a', 'memory://a', '--version'],
      "option '--version <v>' argument missing",
      '`holdfast save --help`',
    ],
  ])('%j: %s', (argv, message, advice) => {
    const error = errorOf(argv);
    expect(error.code).toBe('InvalidArgument');
    expect(error.exitCode).toBe(2);
    expect(error.message).toContain(message);
    expect(String(error.context['advice'])).toContain(advice);
  });

  it.each<[string[], string]>([
    [['save', 'a', 'memory://a', '--version', '-1'], '--version: "-1" is not a version'],
    [['save', 'a', 'memory://a', '--version', '1.5'], '--version: "1.5" is not a version'],
    [
      ['save', 'a', 'memory://a', '--writer', '4/4'],
      '--writer: there is no writer 4 of 4: I counts from 0 to N-1',
    ],
    [['save', 'a', 'memory://a', '--timeout', '10'], '--timeout: "10" has no unit'],
    [
      ['save', 'a', 'memory://a', '--buffer', '256MB'],
      '--buffer: "256MB" is not a size in binary units; write 256MiB',
    ],
    [['save', 'a', 'memory://a', '--metric', 'loss=x'], '--metric: the value of "loss" is "x"'],
    [['verify', 'memory://a', '--level', '3'], '--level: "3" is not a whole number from 0 to 2'],
    [
      ['restore', 'memory://a', 'd', '--on-corrupt', 'skip'],
      '--on-corrupt: "skip" is not one of fail, fallback',
    ],
    [
      ['list', 'memory://a', '--progress', 'fancy'],
      '--progress: "fancy" is not one of auto, bars, plain, json',
    ],
  ])('%j is refused', (argv, message) => {
    const error = errorOf(argv);
    expect(error.code).toBe('InvalidArgument');
    expect(error.message).toContain(message);
  });

  it('a bad value in the environment is InvalidConfig and names the variable', () => {
    const error = errorOf(['save', 'a', 'memory://a'], { HOLDFAST_WRITER: '2-4' });
    expect(error.code).toBe('InvalidConfig');
    expect(error.message).toContain('HOLDFAST_WRITER: "2-4" is not a writer');
  });
});
