/** What the surroundings say about proxies, by the names that `node:http` looks for. */
export type ProxyEnvironment = Readonly<Record<string, string>>;

export function proxyOf(env: Readonly<Record<string, string | undefined>>): ProxyEnvironment {
  const found: Record<string, string> = {};
  for (const name of ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY']) {
    const value = env[name.toLowerCase()] ?? env[name];
    if (value) found[name] = value;
  }
  return found;
}

export interface Destination {
  readonly protocol: 'http:' | 'https:';
  readonly hostname: string;
  readonly port: number;
}

/**
 * Whether the environment sends requests to this server through a proxy. NO_PROXY lists, by commas, what it does not: `*`, an address, a
 * name, a name with '.' or '*.' before it for all that is below; each with a port after ':' if only that is meant.
 */
export function goesThroughProxy(destination: Destination, proxy: ProxyEnvironment): boolean {
  const server = destination.protocol === 'http:' ? proxy.HTTP_PROXY : proxy.HTTPS_PROXY;
  if (server === undefined) return false;
  const rules = (proxy.NO_PROXY ?? '').toLowerCase().split(/[,\s]+/);
  return !rules.some((rule) => rule !== '' && matches(rule, destination));
}

function matches(rule: string, { hostname, port }: Destination): boolean {
  if (rule === '*') return true;
  const [, name = rule, rulePort] = /^(.*[^:]):(\d+)$/.exec(rule) ?? [];
  if (rulePort !== undefined && Number(rulePort) !== port) return false;
  const host = hostname.toLowerCase();
  const suffix = /^\*?(\..+)$/.exec(name)?.[1];
  return suffix === undefined ? host === name.replace(/^\[|\]$/g, '') : host.endsWith(suffix);
}
