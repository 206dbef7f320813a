/** The object store in a bucket of S3, or of a server that speaks its protocol. */

import { HttpTransport, trustedCertificates } from '@holdfast/cloud-http';
import type { ObjectStore } from '@holdfast/core/contract';
import { S3Connection } from './client.ts';
import { parseS3Config, type S3Environment } from './config.ts';
import { RefusedCredentials } from './credentials-request-handler.ts';
import { isErrorOfSuccess, refusalOf } from './errors.ts';
import { S3Store } from './store.ts';

export { parseS3Config, type S3Config, type S3Credentials, type S3Environment } from './config.ts';

/**
 * Opens the store of `s3://bucket/prefix?region=…&endpoint=…`. Sends nothing: a missing or
 * forbidden bucket fails at the first call. Values missing in the URI come from `env` (the
 * variables of AWS tools), then from the files of AWS tools and the SDK's default chain.
 * `InvalidConfig`: the URI is invalid, or a certificate file cannot be read.
 */
export async function openS3Store(uri: string, env: S3Environment): Promise<ObjectStore> {
  const config = parseS3Config(uri, env);
  const { ca, caBundle, proxies } = config;
  const bundle = caBundle === undefined ? undefined : { path: caBundle, variable: 'AWS_CA_BUNDLE' };
  const trusted = await trustedCertificates({ ca, bundle });
  const transport = new HttpTransport({
    ca: trusted,
    proxies,
    refusalOf,
    isRefusedSuccess: isErrorOfSuccess,
    signingSecrets: () => connection.secrets,
  });
  const ofCredentials = new HttpTransport({
    ca: trusted,
    proxies,
    refusalOf: (answer, body) => new RefusedCredentials(answer, body),
  });
  const connection = new S3Connection(config, transport, ofCredentials);
  return new S3Store(config, connection);
}
