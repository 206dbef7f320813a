/**
 * The object store in a bucket of Google Cloud Storage, or of a server that speaks its JSON API.
 */

import { HttpTransport, trustedCertificates } from '@holdfast/cloud-http';
import type { ObjectStore } from '@holdfast/core/contract';
import { GcsConnection } from './client.ts';
import { type GcsEnvironment, parseGcsConfig } from './config.ts';
import { RefusedToken } from './credentials.ts';
import { isErrorOfSuccess, refusalOf } from './errors.ts';
import { GcsStore } from './store.ts';

export { type GcsConfig, type GcsEnvironment, parseGcsConfig, type UploadStrategy } from './config.ts';

/**
 * Opens the store of `gs://bucket/prefix?setting=…`. Sends nothing: a missing or forbidden bucket
 * fails at the first call. Values missing in the URI come from `env`. Credentials are the
 * application default credentials of this process. `InvalidConfig`: the URI is invalid, or a
 * certificate file cannot be read.
 */
export async function openGcsStore(uri: string, env: GcsEnvironment): Promise<ObjectStore> {
  const config = parseGcsConfig(uri, env);
  const { ca, proxies } = config;
  const transport = new HttpTransport({
    ca: await trustedCertificates({ ca }),
    proxies,
    refusalOf,
    isRefusedSuccess: isErrorOfSuccess,
  });
  // `ca` is for the store alone.
  const ofTokens = new HttpTransport({
    proxies,
    refusalOf: (answer, body) => new RefusedToken(answer, body),
  });
  return new GcsStore(config, new GcsConnection(config, transport, ofTokens));
}
