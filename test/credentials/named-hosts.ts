/** A server that is found under the names of services on the internet: those that an SDK asks wherever it runs. */

import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startLastingProxy } from '../scripted/proxy.ts';
import { type Script, startScriptedServer } from '../scripted/scripted-server.ts';
import { makeCertificates } from '../servers/certificates.ts';

export interface NamedHosts {
  /** Variables of a process that is to find it: over a proxy, whose tunnels all lead there, with a certificate that it trusts. */
  readonly env: Readonly<Record<string, string>>;
  stop(): Promise<void>;
}

/** The header `host` of a request says under which name the server was asked. */
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
