/** The URI of a cloud store, taken apart: `scheme://authority/path?setting=value&…`. Pure: nothing is looked up. */

import { CheckpointError } from '@holdfast/core/contract';

/** Keys of 1,024 bytes must be left room for: the longest name of a record takes some 100. */
const PREFIX_BYTES_MAX = 512;

export interface StoreUriForm<Name extends string> {
  /** Such as `s3`. */
  readonly scheme: string;
  /** For messages: `s3://bucket/prefix, with settings after a "?" if need be`. */
  readonly form: string;
  /** Every setting with what it takes, for messages. */
  readonly settings: Readonly<Record<Name, string>>;
}

/** Every method throws `InvalidConfig` with what was wrong and what is accepted. Empty values in the environment count as not set. */
export class StoreUri<Name extends string> {
  /** What stands between `//` and the next '/', as it was given. */
  readonly authority: string;
  /** What stands after that '/', up to the '?': still percent-encoded. */
  readonly path: string;
  readonly given: Readonly<Partial<Record<Name, string>>>;
  readonly #uri: string;
  readonly #form: StoreUriForm<Name>;

  constructor(uri: string, form: StoreUriForm<Name>) {
    this.#uri = uri;
    this.#form = form;
    const match = /^([a-z0-9]+):\/\/([^/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?(#.*)?$/is.exec(uri);
    if (match?.[1]?.toLowerCase() !== form.scheme) throw this.invalid(`is not of the form ${form.form}`);
    const [, , authority = '', path = '', query, fragment] = match;
    if (fragment !== undefined) throw this.invalid('has a fragment; write "#" in a prefix as %23');
    this.authority = authority;
    this.path = path;
    if (authority.includes('@'))
      throw this.invalid('has credentials in it; leave them out: they come from the environment');
    this.given = this.#parseQuery(query);
  }

  /** Percent-decoded and otherwise kept as it is, `//` included; one '/' at its end is left out. */
  prefix(path: string): string {
    const prefix = this.#decoded(path).replace(/\/$/, '');
    if (Buffer.byteLength(prefix) > PREFIX_BYTES_MAX)
      throw this.invalid(`has a prefix of more than ${PREFIX_BYTES_MAX} bytes`);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
    if (/[\u0000-\u001f\u007f]/.test(prefix)) throw this.invalid('has a control character in its prefix');
    return prefix;
  }

  /** The first of `accepted` where the setting is left out. */
  choice<Value extends string>(name: Name, accepted: readonly [Value, ...Value[]]): Value {
    return this.optionalChoice(name, accepted) ?? accepted[0];
  }

  optionalChoice<Value extends string>(name: Name, accepted: readonly Value[]): Value | undefined {
    const value = this.given[name];
    if (value === undefined) return undefined;
    const chosen = accepted.find((candidate) => candidate === value);
    if (chosen === undefined) throw this.expected(name, value);
    return chosen;
  }

  flag(name: Name, otherwise: boolean): boolean {
    const value = this.optionalChoice(name, ['true', 'false']);
    return value === undefined ? otherwise : value === 'true';
  }

  /** The setting, else what the environment has for it. */
  matching(name: Name, form: RegExp, fromEnvironment?: string | undefined): string | undefined {
    const value = this.given[name] ?? fromEnvironment;
    if (value === undefined || value === '') return undefined;
    if (!form.test(value)) throw this.expected(name, value);
    return value;
  }

  absolutePath(name: Name): string | undefined {
    return this.matching(name, /^([a-z]:)?[/\\]/i);
  }

  /** A base URL without '/' at its end; the setting, else what the environment has for it. */
  baseUrl(name: Name, fromEnvironment?: string | undefined): string | undefined {
    const text = this.given[name] ?? fromEnvironment;
    if (text === undefined || text === '') return undefined;
    const url = URL.canParse(text) ? new URL(text) : undefined;
    if (
      url === undefined ||
      !['http:', 'https:'].includes(url.protocol) ||
      url.username !== '' ||
      url.search !== ''
    )
      throw this.expected(
        name,
        text.replace(/\/\/[^/@]*@/, '//[redacted]@').replace(/\?.*$/s, '?[redacted]'),
      );
    return url.href.replace(/\/$/, '');
  }

  expected(name: Name, value: string): CheckpointError {
    return this.invalid(`has ${name}=${value}; ${name} is ${this.#form.settings[name]}`);
  }

  invalid(what: string, cause?: unknown): CheckpointError {
    const { form, settings } = this.#form;
    const shown = this.#uri.replace(/\/\/[^/@]*@/g, '//[redacted]@').replace(/[?#].*$/s, '');
    const message = `${shown} ${what}; accepted: ${form}: ${Object.keys(settings).join(', ')}`;
    return new CheckpointError('InvalidConfig', message, { cause });
  }

  #parseQuery(query: string | undefined): Partial<Record<Name, string>> {
    const found: Partial<Record<Name, string>> = {};
    for (const pair of query === undefined ? [] : query.split('&')) {
      const [key = '', ...rest] = pair.split('=');
      const name = this.#decoded(key) as Name;
      if (!Object.hasOwn(this.#form.settings, name))
        throw this.invalid(`has the unknown query key "${name}"`);
      if (Object.hasOwn(found, name)) throw this.invalid(`has the query key "${name}" twice`);
      const value = this.#decoded(rest.join('='));
      if (value === '') throw this.expected(name, value);
      found[name] = value;
    }
    return found;
  }

  #decoded(text: string): string {
    try {
      return decodeURIComponent(text);
    } catch (cause) {
      throw this.invalid(
        'has a "%" that is not followed by two hexadecimal digits of UTF-8; write "%" as %25',
        cause,
      );
    }
  }
}
