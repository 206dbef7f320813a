/**
 * A server that answers under the names of internet services. An SDK asks these names on every
 * machine.
 */

import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startLastingProxy } from '../scripted/proxy.ts';
import { type Script, startScriptedServer } from '../scripted/scripted-server.ts';
import { makeCertificates } from '../servers/certificates.ts';

export interface NamedHosts {
  /**
   * Variables for a process that must reach this server: a proxy whose tunnels all lead to it, and
   * its certificate as trusted.
   */
  readonly env: Readonly<Record<string, string>>;
  stop(): Promise<void>;
}

/** The header `host` of a request contains the name under which the server was asked. */
export async function startNamedHosts(hostnames: readonly string[], script: Script): Promise<NamedHosts> {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-hosts-'));
  const { caPath, certificatePath, keyPath } = await makeCertificates(directory, hostnames);
  const [cert, key] = await Promise.all([readFile(certificatePath), readFile(keyPath)]);
  const server = await startScriptedServer(script, { tls: { cert, key } });
  const proxy = await startLastingProxy({ portOfAll: server.port });
  return {
    env: { https_proxy: proxy.url, no_proxy: '127.0.0.1,localhost', NODE_EXTRA_CA_CERTS: caPath },
    async stop() {
      await Promise.all([proxy.stop(), server.stop(), rm(directory, { recursive: true })]);
    },
  };
}
