/** The object store in a container of Azure Blob Storage. */

import { HttpTransport, trustedCertificates } from '@holdfast/cloud-http';
import type { ObjectStore } from '@holdfast/core/contract';
import { signingSecretsOf } from './authorization.ts';
import { AzureConnection } from './client.ts';
import { parseAzureConfig } from './config.ts';
import { refusalOf } from './errors.ts';
import type { AzureEnvironment } from './identity-config.ts';
import { AzureStore } from './store.ts';

export { type AzureConfig, parseAzureConfig } from './config.ts';
export type { AzureCredentials } from './connection-string.ts';
export type { AzureEnvironment } from './identity-config.ts';

/**
 * Opens the store of `az://account/container/prefix?endpoint=…`. Sends nothing: a missing or
 * forbidden container fails at the first call. Values missing in the URI come from `env` (the
 * variables of Azure's tools). Without a key or SAS there, the machine's identity is used.
 * `InvalidConfig`: the URI or a variable is invalid, or a certificate file cannot be read.
 */
export async function openAzureStore(uri: string, env: AzureEnvironment): Promise<ObjectStore> {
  const config = parseAzureConfig(uri, env);
  const transport = new HttpTransport({
    ca: await trustedCertificates({ ca: config.ca }),
    proxies: config.proxies,
    refusalOf,
    signingSecrets: () => signingSecretsOf(config),
  });
  return new AzureStore(config, new AzureConnection(config, transport));
}
