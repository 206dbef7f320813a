/** Proxies of the environment: which of them a request uses, and with which credentials. */

import { CheckpointError } from '@holdfast/core/contract';
import { Secret } from './secret.ts';

/** A proxy as a variable names it. */
export interface HttpProxy {
  /** Name of the environment variable, as spelt there. */
  readonly variable: string;
  /** Whole, with user and password. */
  readonly url: Secret;
  /** Secrets sent to the proxy, which a server behind it may repeat. */
  readonly secrets: readonly string[];
}

/** The proxy in front of the store rejected a request. Its own text is dropped. */
export class ProxyRefusal extends Error {
  readonly status: number;
  /** The environment variable that names the proxy, if any. */
  readonly variable: string | undefined;

  constructor(status: number, variable: string | undefined) {
    super(`HTTP ${status} from the proxy`);
    this.name = 'ProxyRefusal';
    this.status = status;
    this.variable = variable;
  }
}

export interface ServerAddress {
  readonly protocol: 'http:' | 'https:';
  readonly hostname: string;
  readonly port: number;
}

interface Variable {
  readonly name: string;
  readonly value: Secret;
}

/** Advice for a proxy that requires credentials. */
export const LOGIN_ADVICE =
  'add its user and password to the variable that names it, or add the server to NO_PROXY if it needs no proxy';

const ACCEPTED =
  'accepted: http://host:port or https://host:port, with user:password@ before the host if the proxy requires them, percent-encoded';

/**
 * `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`. The lower-case name has priority. An empty variable
 * counts as not set.
 */
export class Proxies {
  readonly #http: Variable | undefined;
  readonly #https: Variable | undefined;
  readonly #exceptions: readonly string[];

  constructor(env: Readonly<Record<string, string | undefined>>) {
    this.#http = variableOf(env, 'HTTP_PROXY');
    this.#https = variableOf(env, 'HTTPS_PROXY');
    const exceptions = variableOf(env, 'NO_PROXY')?.value.reveal() ?? '';
    this.#exceptions = exceptions
      .toLowerCase()
      .split(/[,\s]+/)
      .filter((rule) => rule !== '');
  }

  /**
   * The proxy for requests to this server; undefined: none.
   *
   * NO_PROXY lists, separated by commas, what bypasses the proxy: `*`, an address, or a name. With
   * '.' or '*.' before it, a name stands for all names below. A port after ':' restricts an entry
   * to that port.
   *
   * Throws `InvalidConfig` if the variable is not the URL of a usable proxy. The message does not
   * repeat it.
   */
  to(destination: ServerAddress): HttpProxy | undefined {
    const variable = destination.protocol === 'http:' ? this.#http : this.#https;
    if (variable === undefined || this.#exceptions.some((rule) => matches(rule, destination)))
      return undefined;
    return proxyOf(variable);
  }
}

function variableOf(env: Readonly<Record<string, string | undefined>>, name: string): Variable | undefined {
  const small = name.toLowerCase();
  const found = env[small] === undefined ? name : small;
  const value = env[found];
  return value ? { name: found, value: new Secret(value) } : undefined;
}

function proxyOf({ name, value }: Variable): HttpProxy {
  const text = value.reveal().trim();
  const url = /^https?:\/\//i.test(text) && URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || `${url.search}${url.hash}` !== '' || url.pathname !== '/')
    throw new CheckpointError('InvalidConfig', `${name} is not the URL of a usable proxy; ${ACCEPTED}`);
  const [user, password] = [decoded(url.username, name), decoded(url.password, name)];
  const basic = user === '' && password === '' ? [] : [password, base64(`${user}:${password}`)];
  return { variable: name, url: new Secret(url.href), secrets: basic };
}

function decoded(text: string, variable: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    const what = `${variable} has a "%" in its user or password that is not followed by two hexadecimal digits`;
    throw new CheckpointError('InvalidConfig', `${what}; write "%" as %25; ${ACCEPTED}`);
  }
}

const base64 = (text: string): string => Buffer.from(text).toString('base64');

function matches(rule: string, { hostname, port }: ServerAddress): boolean {
  if (rule === '*') return true;
  const [, name = rule, rulePort] = /^(.*[^:]):(\d+)$/.exec(rule) ?? [];
  if (rulePort !== undefined && Number(rulePort) !== port) return false;
  const host = hostname.toLowerCase();
  const suffix = /^\*?(\..+)$/.exec(name)?.[1];
  return suffix === undefined ? host === name.replace(/^\[|\]$/g, '') : host.endsWith(suffix);
}
