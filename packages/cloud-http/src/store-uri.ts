/**
 * Parses the URI of a cloud store: `scheme://authority/path?setting=value&…`. Pure: no requests. A
 * rejected URI may hold a secret in a wrong place, so no message repeats any of it.
 */

import { CheckpointError } from '@holdfast/core/contract';
import { Secret } from './secret.ts';
import { isInTheClear } from './values.ts';

/** A key has at most 1,024 bytes. The rest is for the names of records (about 100) and of files. */
const PREFIX_BYTES_MAX = 512;

export interface StoreUriForm<Name extends string> {
  /** Such as `s3`. */
  readonly scheme: string;
  /** For messages: `s3://bucket/prefix, with settings after a "?" if need be`. */
  readonly form: string;
  /** Every setting with its accepted values, for messages. */
  readonly settings: Readonly<Record<Name, string>>;
}

/** Value from the environment for a setting that the URI leaves open. */
export interface FromEnvironment {
  /** Name of the variable, or another source. */
  readonly variable: string;
  readonly value: string;
}

/** The first of the variables that is set. */
export function firstOf(
  env: Readonly<Record<string, string | undefined>>,
  ...variables: readonly string[]
): FromEnvironment | undefined {
  for (const variable of variables) {
    const value = env[variable];
    if (value) return { variable, value };
  }
  return undefined;
}

/** Marks an Azure SAS, and signed URLs of S3 and Google Cloud Storage in both of their versions. */
const SIGNATURE = /(?<![a-z0-9])(?:sig|signature|x-amz-signature|x-amz-security-token|x-goog-signature)=/i;
/** How often percent-encoding is undone: a URI may be encoded in one that is encoded in another. */
const ESCAPES_MAX = 4;

/** Whether a URI has the signature of a signed URL anywhere, escaped or not, also in its prefix. */
export function holdsSignature(uri: string): boolean {
  let text = uri;
  for (let layer = 0; layer <= ESCAPES_MAX; layer += 1) {
    if (SIGNATURE.test(text)) return true;
    text = text.replace(/%([0-7][0-9a-f])/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
  }
  return false;
}

/**
 * Every method throws `InvalidConfig` with what was wrong and what is accepted. Empty variables
 * count as not set.
 */
export class StoreUri<Name extends string> {
  /** Text between `//` and the next '/', unchanged. */
  readonly authority: string;
  /** Text after that '/', up to the '?': still percent-encoded. */
  readonly path: string;
  readonly given: Readonly<Partial<Record<Name, string>>>;
  readonly #form: StoreUriForm<Name>;

  constructor(uri: string, form: StoreUriForm<Name>) {
    this.#form = form;
    if (holdsSignature(uri))
      throw this.invalid('contains the signature of a signed URL; set credentials in the environment');
    const match = /^([a-z0-9]+):\/\/([^/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?(#.*)?$/is.exec(uri);
    if (match?.[1]?.toLowerCase() !== form.scheme) throw this.invalid(`is not of the form ${form.form}`);
    const [, , authority = '', path = '', query, fragment] = match;
    if (fragment !== undefined) throw this.invalid('has a fragment; write "#" in a prefix as %23');
    this.authority = authority;
    this.path = path;
    if (authority.includes('@'))
      throw this.invalid('contains credentials; remove them and set them in the environment');
    this.given = this.#parseQuery(query);
  }

  /** Percent-decoded and otherwise unchanged, including `//`. One trailing '/' is dropped. */
  prefix(path: string): string {
    const prefix = this.#decoded(path).replace(/\/$/, '');
    if (Buffer.byteLength(prefix) > PREFIX_BYTES_MAX)
      throw this.invalid(`has a prefix of more than ${PREFIX_BYTES_MAX} bytes`);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
    if (/[\u0000-\u001f\u007f]/.test(prefix)) throw this.invalid('has a control character in its prefix');
    return prefix;
  }

  /** The first of `accepted` if the setting is absent. */
  choice<Value extends string>(name: Name, accepted: readonly [Value, ...Value[]]): Value {
    return this.optionalChoice(name, accepted) ?? accepted[0];
  }

  optionalChoice<Value extends string>(name: Name, accepted: readonly Value[]): Value | undefined {
    const value = this.given[name];
    if (value === undefined) return undefined;
    const chosen = accepted.find((candidate) => candidate === value);
    if (chosen === undefined) throw this.expected(name);
    return chosen;
  }

  flag(name: Name, otherwise: boolean): boolean {
    const value = this.optionalChoice(name, ['true', 'false']);
    return value === undefined ? otherwise : value === 'true';
  }

  /** The setting, otherwise the value from the environment. */
  matching(name: Name, form: RegExp, fromEnvironment?: FromEnvironment | undefined): string | undefined {
    const value = this.given[name] ?? fromEnvironment?.value;
    if (value === undefined || value === '') return undefined;
    if (!form.test(value)) throw this.#unaccepted(name, fromEnvironment);
    return value;
  }

  absolutePath(name: Name): string | undefined {
    return this.matching(name, /^([a-z]:)?[/\\]/i);
  }

  /** A base URL without a trailing '/': the setting, otherwise the value from the environment. */
  baseUrl(name: Name, fromEnvironment?: FromEnvironment | undefined): string | undefined {
    const text = this.given[name] ?? fromEnvironment?.value;
    if (text === undefined || text === '') return undefined;
    const url = URL.canParse(text) ? new URL(text) : undefined;
    if (url === undefined || !['http:', 'https:'].includes(url.protocol) || holdsMore(url))
      throw this.#unaccepted(name, fromEnvironment);
    return url.href.replace(/\/$/, '');
  }

  /**
   * The caller's own encryption key, 32 bytes in base64 from a variable. `other`: a setting of this
   * URI that encrypts too, as messages name it; both together are refused.
   */
  customerKey(
    { variable, value }: { readonly variable: string; readonly value: string | undefined },
    { endpoint, other }: { readonly endpoint: string | undefined; readonly other: string | undefined },
  ): Secret | undefined {
    if (!value) return undefined;
    if (!/^[A-Za-z0-9+/]{43}=$/.test(value))
      throw new CheckpointError('InvalidConfig', `${variable} is not the base64 of 32 bytes`);
    if (other !== undefined)
      throw this.invalid(`has ${other} although ${variable} is set; use only one of the two`);
    if (endpoint !== undefined && isInTheClear(endpoint))
      throw this.invalid(`would send ${variable} unencrypted: its endpoint is http://`);
    return new Secret(value);
  }

  expected(name: Name): CheckpointError {
    return this.invalid(`has ${name}= with a value that is not accepted; ${this.#takes(name)}`);
  }

  invalid(what: string, cause?: unknown): CheckpointError {
    const { scheme, form, settings } = this.#form;
    const message = `the ${scheme}:// URI ${what}; accepted: ${form}: ${Object.keys(settings).join(', ')}`;
    return new CheckpointError('InvalidConfig', message, { cause });
  }

  #takes(name: Name): string {
    return `${name} is ${this.#form.settings[name]}`;
  }

  /** Error for the setting, or for its value from the environment. */
  #unaccepted(name: Name, fromEnvironment: FromEnvironment | undefined): CheckpointError {
    if (this.given[name] !== undefined || fromEnvironment === undefined) return this.expected(name);
    const what = `${fromEnvironment.variable} has a value that is not accepted; ${this.#takes(name)}`;
    return new CheckpointError('InvalidConfig', what);
  }

  #parseQuery(query: string | undefined): Partial<Record<Name, string>> {
    const found: Partial<Record<Name, string>> = {};
    const pairs = query === undefined ? [] : query.split('&');
    for (const [index, pair] of pairs.entries()) {
      const [key = '', ...rest] = pair.split('=');
      const name = this.#decoded(key) as Name;
      if (!Object.hasOwn(this.#form.settings, name))
        throw this.invalid(`has an unknown setting: setting ${index + 1} after "?"`);
      if (Object.hasOwn(found, name)) throw this.invalid(`has the query key "${name}" twice`);
      const value = this.#decoded(rest.join('='));
      if (value === '') throw this.expected(name);
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

/** Parts that a base URL must not have, and that are mostly secrets. */
function holdsMore({ username, password, search, hash, pathname }: URL): boolean {
  return `${username}${password}${search}${hash}` !== '' || pathname.includes('@');
}
