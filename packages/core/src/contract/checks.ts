/**
 * Rules for the arguments and options of callers, checked before anything is done. All rules are
 * here, so that every call rejects values in the same way. The error is `InvalidArgument`, or
 * `InvalidConfig` for URIs and settings. It names what was given and what is accepted.
 */

import { CheckpointError, type ErrorCode } from './errors.ts';

const TEXT_SHOWN_MAX = 80;

/** Throws a `CheckpointError` unless `value` is accepted. `name` is the caller's name for it. */
export type Rule = (name: string, value: unknown) => void;

/** One rule for each option; an option without a rule does not compile. */
export type Rules<T> = { readonly [name in keyof T]-?: Rule };

/** Maximum delay of setTimeout: 24 days. */
export const TIMER_MS_MAX = 2 ** 31 - 1;

/** A value as messages show it: short, and never the content of an object. */
export function shown(value: unknown): string {
  if (value instanceof Uint8Array) return `${value.length} bytes`;
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'object' && value !== null) return 'an object';
  if (typeof value === 'function') return 'a function';
  if (typeof value === 'bigint') return `${value}n`;
  const text = typeof value === 'string' ? JSON.stringify(value.slice(0, TEXT_SHOWN_MAX + 1)) : String(value);
  return text.length > TEXT_SHOWN_MAX ? `${text.slice(0, TEXT_SHOWN_MAX)}…` : text;
}

export function notAccepted(
  name: string,
  value: unknown,
  accepted: string,
  code: ErrorCode = 'InvalidArgument',
): CheckpointError {
  return new CheckpointError(code, `${name} is ${shown(value)}; it takes ${accepted}`);
}

/** A rule from a predicate and the text that messages show for accepted values. */
export function rule(accepts: (value: unknown) => boolean, accepted: string): Rule {
  return (name, value) => {
    if (!accepts(value)) throw notAccepted(name, value, accepted);
  };
}

/** Also accepts `undefined`. `null` does not leave a value out, unless the rule accepts it. */
export function optional(accepting: Rule): Rule {
  return (name, value) => {
    if (value !== undefined) accepting(name, value);
  };
}

export function orNull(accepting: Rule): Rule {
  return (name, value) => {
    if (value !== null) accepting(name, value);
  };
}

/** Both limits are inclusive. */
export function wholeNumber(min: number, max: number = Number.MAX_SAFE_INTEGER): Rule {
  const range = max === Number.MAX_SAFE_INTEGER ? `from ${min} on` : `from ${min} to ${max}`;
  return rule((value) => isWhole(value) && value >= min && value <= max, `a whole number ${range}`);
}

/** Accepts fractions too, as clocks return them. Both limits are inclusive. */
export function duration(minMs: number, maxMs: number): Rule {
  return rule(
    (value) => typeof value === 'number' && value >= minMs && value <= maxMs,
    `milliseconds from ${minMs} to ${maxMs}`,
  );
}

export function oneOf(...known: readonly (string | number | boolean)[]): Rule {
  return rule((value) => known.includes(value as string), known.join(', '));
}

export const flag: Rule = rule((value) => typeof value === 'boolean', 'true or false');
export const anyText: Rule = rule((value) => typeof value === 'string', 'text');
export const text: Rule = rule(
  (value) => typeof value === 'string' && value !== '',
  'text that is not empty',
);
export const callback: Rule = rule((value) => typeof value === 'function', 'a function');
export const byteArray: Rule = rule((value) => value instanceof Uint8Array, 'a Uint8Array');
export const abortSignal: Rule = rule((value) => value instanceof AbortSignal, 'an AbortSignal');

export function listOf(each: Rule): Rule {
  return (name, value) => {
    if (!Array.isArray(value)) throw notAccepted(name, value, 'a list');
    for (const [index, item] of value.entries()) each(`${name}[${index}]`, item);
  };
}

/** A list that is not empty. */
export function someOf(each: Rule): Rule {
  return (name, value) => {
    if (Array.isArray(value) && value.length === 0) throw notAccepted(name, value, 'at least one');
    listOf(each)(name, value);
  };
}

/** Plain data: names with a value each. */
export function recordOf(each: Rule): Rule {
  return (name, value) => {
    plainObject(name, value);
    for (const [key, item] of Object.entries(value as object)) each(`${name}[${shown(key)}]`, item);
  };
}

export const plainObject: Rule = rule(
  (value) => typeof value === 'object' && value !== null && !isListOrBytes(value),
  'an object',
);

/** An object with these methods, whether or not it is a class instance. */
export function having(...methods: readonly string[]): Rule {
  const has = (value: object) =>
    methods.every((method) => typeof (value as Record<string, unknown>)[method] === 'function');
  return rule(
    (value) => typeof value === 'object' && value !== null && has(value),
    `an object with ${methods.join(', ')}`,
  );
}

/** Components that are passed to a manager. */
export const aClock: Rule = having('nowMs', 'monotonicMs', 'sleep');
export const aRandom: Rule = having('hex', 'fraction');
export const aLogger: Rule = having('log');
export const aMeter: Rule = having('measure');
export const aStore: Rule = having('create', 'head', 'get', 'readInto', 'list', 'deleteMany', 'close');

/**
 * Checks the options of a call. An option without a rule is refused, because a misspelt option
 * would otherwise be ignored. A name whose value is `undefined` counts as left out.
 */
export function checkOptions<T extends object>(options: T, rules: Rules<T>, name = 'the argument'): void {
  checkSome(options, rules, name);
  for (const [option, value] of Object.entries(options)) {
    if (value !== undefined && !Object.hasOwn(rules, option)) {
      const known = Object.keys(rules).join(', ');
      const message = `${name} has the option ${shown(option)}, which is not known; it takes ${known}`;
      throw new CheckpointError('InvalidArgument', message);
    }
  }
}

/** Checks what has a rule, for values that carry more, such as options that several calls check. */
export function checkSome<T extends object>(value: T, rules: Rules<T>, name = 'the argument'): void {
  plainObject(name, value);
  for (const [option, accepting] of Object.entries<Rule>(rules))
    accepting(option, (value as Record<string, unknown>)[option]);
}

/**
 * Checks the URI of a store, and the variables that fill in what the URI leaves open.
 * `InvalidConfig` names the value that is not text but does not repeat it: a value in the wrong
 * place may be a secret.
 */
export function checkStoreInput(uri: unknown, env: unknown = {}): void {
  const refuse = (name: string, value: unknown, accepted: string) =>
    new CheckpointError(
      'InvalidConfig',
      `${name} is ${value === null ? 'null' : `of type ${typeof value}`}; it takes ${accepted}`,
    );
  if (typeof uri !== 'string') throw refuse('the URI', uri, 'text, such as file:///abs/dir');
  if (typeof env !== 'object' || env === null || Array.isArray(env))
    throw refuse('the environment', env, 'an object of variables and their values');
  for (const [variable, value] of Object.entries(env)) {
    if (value !== undefined && typeof value !== 'string')
      throw refuse(`the environment variable ${variable}`, value, 'text');
  }
}

/** See `ProcessName`. */
export const aProcess: Rule = (name, value) => {
  plainObject(name, value);
  checkSome(value as { host: string; pid: number }, { host: anyText, pid: wholeNumber(0) }, name);
};

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value);
}

function isListOrBytes(value: object): boolean {
  return Array.isArray(value) || ArrayBuffer.isView(value);
}

/** A chunk that a caller's stream gave. `InvalidArgument` names the stream and what it gave. */
export function assertChunk(stream: string, chunk: unknown): asserts chunk is Uint8Array {
  if (chunk instanceof Uint8Array) return;
  const found = chunk === null ? 'null' : typeof chunk;
  const message = `the stream of "${stream}" gave a chunk of type ${found}; it takes Uint8Array`;
  throw new CheckpointError('InvalidArgument', message, { context: { name: stream } });
}
