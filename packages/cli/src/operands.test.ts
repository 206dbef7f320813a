import { describe, expect, it } from 'vitest';
import { COMMANDS } from './commands/index.ts';
import { takeOperands, takeUriFirst, takeUriLast } from './operands.ts';

const named = (name: string) => COMMANDS.find((command) => command.name === name)!;
const env = { HOLDFAST_URI: 'memory://env' };

describe('takeUriFirst', () => {
  const restore = named('restore');
  const take = (operands: string[], environment = {}) =>
    takeUriFirst(restore, operands, environment, ['DIR']);

  it('takes URI and DIR', () => {
    expect(take(['memory://a', './d'])).toEqual({
      uri: 'memory://a',
      rest: ['./d'],
      isUriFromEnvironment: false,
    });
  });

  it('HOLDFAST_URI is used if the URI is omitted, and for no other', () => {
    expect(take(['./d'], env)).toEqual({ uri: 'memory://env', rest: ['./d'], isUriFromEnvironment: true });
    expect(take(['memory://a', './d'], env).uri).toBe('memory://a');
    expect(takeUriFirst(named('list'), [], env).uri).toBe('memory://env');
  });

  it('names what is missing', () => {
    expect(() => take([])).toThrow('restore needs URI and DIR');
    expect(() => take(['memory://a'])).toThrow('restore needs DIR');
    expect(() => take(['memory://a'], env)).toThrow('restore needs DIR');
    expect(() => take(['./d'])).toThrow('restore needs URI');
    expect(() => take([], env)).toThrow('restore needs DIR');
    expect(() => takeUriFirst(named('list'), [], {})).toThrow('list needs URI');
  });

  it('names what is too much', () => {
    expect(() => take(['memory://a', './d', 'x', 'y'])).toThrow('too many operands for restore: 2 more');
  });
});

describe('takeUriLast', () => {
  const take = (operands: string[], environment = {}) =>
    takeUriLast(named('save'), operands, environment, 'DIR or FILE');

  it('takes sources and URI', () => {
    expect(take(['a', 'b', 'memory://a'])).toEqual({
      uri: 'memory://a',
      rest: ['a', 'b'],
      isUriFromEnvironment: false,
    });
  });

  it('HOLDFAST_URI stands in where the last one is no URI', () => {
    expect(take(['a', 'b'], env)).toEqual({
      uri: 'memory://env',
      rest: ['a', 'b'],
      isUriFromEnvironment: true,
    });
    expect(take(['a', 'memory://a'], env).uri).toBe('memory://a');
  });

  it('without it the last one is the URI that was meant, so that its error can say how to write it', () => {
    expect(take(['a', '/data/run']).uri).toBe('/data/run');
  });

  it('names what is missing', () => {
    expect(() => take([])).toThrow('save needs DIR or FILE and URI');
    expect(() => take(['a'])).toThrow('save needs URI');
    expect(() => take(['memory://a'])).toThrow('save needs DIR or FILE');
  });
});

describe('takeOperands', () => {
  it('takes exactly as many as there are names', () => {
    expect(takeOperands(named('completion'), ['bash'], ['SHELL'])).toEqual(['bash']);
    expect(() => takeOperands(named('completion'), [], ['SHELL'])).toThrow('completion needs SHELL');
    expect(() => takeOperands(named('completion'), ['bash', 'zsh'], ['SHELL'])).toThrow('too many operands');
  });
});
