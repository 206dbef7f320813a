import { isAbsolute } from 'node:path';
import { pathToFileURL } from 'node:url';
import { CheckpointError } from '@holdfast/core/contract';

/**
 * `fsync`: acknowledged objects survive a loss of power. `none`: they survive only the loss of the
 * process. `none` is for tests and for measuring the cost of durability, never for checkpoints to
 * keep.
 */
export type Durability = 'fsync' | 'none';

export interface LocalConfig {
  /** For messages. */
  readonly uri: string;
  /** Absolute. Created by the first write. */
  readonly directory: string;
  readonly durability: Durability;
  /** `auto`: past the page cache where that works. `off`: never. */
  readonly direct: 'auto' | 'off';
}

/** The configuration without a URI. Omitted fields take their default. */
export interface LocalOptions {
  /** Absolute. */
  readonly directory: string;
  /** Default `fsync`. */
  readonly durability?: Durability | undefined;
  /** Default `auto`. */
  readonly direct?: 'auto' | 'off' | undefined;
}

const FORM =
  'file:///absolute/directory, with optional durability=fsync|none and direct=auto|off after a "?"';

/**
 * Subject of error messages. They never repeat the text: a URI that cannot be parsed may hold a
 * secret.
 */
const URI = 'the file:// URI';
const DIRECTORY = 'the directory';

/** The first is the default. */
const PARAMETERS = { durability: ['fsync', 'none'], direct: ['auto', 'off'] } as const;
type ParameterName = keyof typeof PARAMETERS;

/**
 * Parses a `file:` URI or options. `InvalidConfig` says what was wrong and what is accepted. Pure:
 * no system calls.
 */
export function parseLocalConfig(target: string | LocalOptions): LocalConfig {
  return typeof target === 'string' ? parseLocalUri(target) : completeOptions(target);
}

/** The path is percent-decoded and otherwise unchanged, including "//" and "..". */
function parseLocalUri(uri: string): LocalConfig {
  const match = /^file:\/\/([^/?#]*)([^?#]*)(?:\?([^#]*))?(#.*)?$/is.exec(uri);
  if (match === null) throw invalid(URI, 'is not a file URI with "//" and an absolute path');
  const [, host = '', path = '', query, fragment] = match;
  if (host !== '') throw invalid(URI, 'has a host; write an absolute path with a third "/" before it');
  if (fragment !== undefined) throw invalid(URI, 'has a fragment; write "#" in a path as %23');
  const directory = decoded(path);
  if (!/[^/]/.test(directory)) throw invalid(URI, 'names no directory');
  if (directory.includes('\0')) throw invalid(URI, 'has a NUL character in its path');
  return { uri, directory, ...parseQuery(query) };
}

function parseQuery(query: string | undefined): Pick<LocalConfig, ParameterName> {
  const found = new Map<ParameterName, string>();
  const pairs = query === undefined ? [] : query.split('&');
  for (const [index, pair] of pairs.entries()) {
    const [key = '', ...rest] = pair.split('=');
    const name = decoded(key);
    if (!isParameter(name)) throw invalid(URI, `has an unknown setting: setting ${index + 1} after "?"`);
    if (found.has(name)) throw invalid(URI, `has the query key "${name}" twice`);
    found.set(name, decoded(rest.join('=')));
  }
  return {
    durability: choice(URI, 'durability', found.get('durability')),
    direct: choice(URI, 'direct', found.get('direct')),
  };
}

function isParameter(name: string): name is ParameterName {
  return Object.hasOwn(PARAMETERS, name);
}

function choice<Name extends ParameterName>(
  subject: string,
  name: Name,
  value: string | undefined,
): (typeof PARAMETERS)[Name][number] {
  const accepted: readonly (typeof PARAMETERS)[Name][number][] = PARAMETERS[name];
  const chosen = value === undefined ? accepted[0] : accepted.find((candidate) => candidate === value);
  if (chosen === undefined)
    throw invalid(
      subject,
      `has ${name}= with a value that is not accepted; ${name} is one of ${accepted.join(', ')}`,
    );
  return chosen;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (cause) {
    throw invalid(
      URI,
      `has a "%" that is not followed by two hexadecimal digits of UTF-8; write "%" as %25`,
      cause,
    );
  }
}

function completeOptions(options: LocalOptions): LocalConfig {
  if (typeof options !== 'object' || options === null) throw invalid(DIRECTORY, 'is not given');
  const { directory } = options;
  if (typeof directory !== 'string') throw invalid(DIRECTORY, 'is not a string');
  if (!isAbsolute(directory)) throw invalid(DIRECTORY, 'is not an absolute path');
  if (directory.includes('\0')) throw invalid(DIRECTORY, 'has a NUL character in it');
  return {
    uri: pathToFileURL(directory).href,
    directory,
    durability: choice(DIRECTORY, 'durability', options.durability),
    direct: choice(DIRECTORY, 'direct', options.direct),
  };
}

function invalid(subject: string, what: string, cause?: unknown): CheckpointError {
  return new CheckpointError('InvalidConfig', `${subject} ${what}; accepted: ${FORM}`, {
    cause,
  });
}
