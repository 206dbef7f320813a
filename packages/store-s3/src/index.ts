/** The object store in a bucket of S3, or of a server that speaks its protocol. */

import { readFile } from 'node:fs/promises';
import { rootCertificates } from 'node:tls';
import { CheckpointError, type ObjectStore } from '@holdfast/core/contract';
import { S3Connection } from './client.ts';
import { parseS3Config, type S3Config, type S3Environment } from './config.ts';
import { S3Store } from './store.ts';
import { Transport } from './transport.ts';

export { parseS3Config, type S3Config, type S3Credentials, type S3Environment } from './config.ts';

/** Beyond what the engine keeps in flight, for records and a second try of a slow part. */
const CONNECTIONS_MAX = 128;

/**
 * Opens the store of `s3://bucket/prefix?region=…&endpoint=…`. Sends nothing: a bucket that is not there, or may not be used, shows at
 * the first call. What the URI leaves open is filled from `env` (the variables of AWS tools), then from the SDK's default chain.
 * `InvalidConfig`: the URI, or a certificate file that cannot be read.
 */
export async function openS3Store(uri: string, env: S3Environment = {}): Promise<ObjectStore> {
  const config = parseS3Config(uri, env);
  const transport = new Transport({
    ca: await trusted(config),
    proxy: config.proxy,
    connectionsMax: CONNECTIONS_MAX,
  });
  return new S3Store(config, new S3Connection(config, transport));
}

/** All certificates to trust; undefined: those that Node trusts by itself. */
async function trusted({ ca, caBundle }: S3Config): Promise<string[] | undefined> {
  const usual = caBundle === undefined ? undefined : [await certificates(caBundle, 'AWS_CA_BUNDLE')];
  return ca === undefined ? usual : [...(usual ?? rootCertificates), await certificates(ca, 'ca=')];
}

async function certificates(path: string, setting: string): Promise<string> {
  const text = await readFile(path, 'utf8').catch((cause: unknown) => {
    throw new CheckpointError('InvalidConfig', `the certificates in ${path} (${setting}) cannot be read`, {
      cause,
    });
  });
  if (text.includes('-----BEGIN CERTIFICATE-----')) return text;
  throw new CheckpointError('InvalidConfig', `${path} (${setting}) holds no certificate in PEM form`);
}
