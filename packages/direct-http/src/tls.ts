import { createRequire } from 'node:module';

type Tls = typeof import('node:tls');

let loaded: Tls | undefined;

/** `node:tls`, loaded at the first TLS connection: plain HTTP must not pay 20 ms for it. */
export function tls(): Tls {
  loaded ??= createRequire(import.meta.url)('node:tls') as Tls;
  return loaded;
}
