/** Access to an S3 server for tests, past the adapter: buckets, their contents, credentials. */

import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { text as readText } from 'node:stream/consumers';
import {
  CreateBucketCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { SignatureV4 } from '@smithy/signature-v4';
import { type BucketView, partsOfBucket, type TestBucket } from './test-bucket.ts';

// A stopped server, or a port of another program, must not block a test.
const REQUEST_TIMEOUT_MS = 20_000;

export interface S3Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
}

/** Endpoint of a server, and the credentials with all rights there. */
export interface S3Access extends S3Credentials {
  readonly endpoint: string;
  readonly region: string;
  /** PEM file of the authority to trust, for an https endpoint. */
  readonly caPath?: string;
}

/** A client with path style that makes one attempt per request. The caller destroys it. */
export async function s3Client(
  access: S3Access,
  credentials: S3Credentials = access,
  timeoutMs = REQUEST_TIMEOUT_MS,
): Promise<S3Client> {
  const { endpoint, region, caPath } = access;
  const agent = caPath === undefined ? {} : { httpsAgent: { ca: await readFile(caPath) } };
  return new S3Client({
    endpoint,
    region,
    credentials: { ...credentials },
    forcePathStyle: true,
    maxAttempts: 1,
    requestHandler: {
      ...agent,
      connectionTimeout: timeoutMs,
      requestTimeout: timeoutMs,
      throwOnRequestTimeout: true,
    },
  });
}

export function credentialsEnv(credentials: S3Credentials): Record<string, string> {
  const { accessKeyId, secretAccessKey, sessionToken } = credentials;
  return {
    AWS_ACCESS_KEY_ID: accessKeyId,
    AWS_SECRET_ACCESS_KEY: secretAccessKey,
    ...(sessionToken !== undefined && { AWS_SESSION_TOKEN: sessionToken }),
  };
}

/** A new bucket of a server that this process started. */
export async function newBucketOf(access: S3Access): Promise<TestBucket> {
  const bucket = `holdfast-test-${randomBytes(6).toString('hex')}`;
  const client = await s3Client(access);
  try {
    await client.send(new CreateBucketCommand({ Bucket: bucket }));
  } finally {
    client.destroy();
  }
  const { endpoint, region, caPath } = access;
  const query = new URLSearchParams({ endpoint, region, ...(caPath !== undefined && { ca: caPath }) });
  return { uri: `s3://${bucket}/run?${query}`, env: credentialsEnv(access), bucket, endpoint };
}

/** A policy in the form that IAM takes, without the version. */
export interface Policy {
  readonly Statement: readonly {
    readonly Effect: 'Allow' | 'Deny';
    /** `s3:PutObject`, … */
    readonly Action: readonly string[];
    /** `arn:aws:s3:::bucket/*`, … */
    readonly Resource: readonly string[];
  }[];
}

/**
 * New credentials with exactly the rights in `policy`. They expire after `durationSeconds`; MinIO
 * takes 900 to 31,536,000.
 */
export async function restrictedCredentials(
  access: S3Access,
  policy: Policy,
  durationSeconds = 3600,
): Promise<Required<S3Credentials>> {
  const client = await s3Client(access);
  try {
    const signer = new SignatureV4({
      service: 'sts',
      region: access.region,
      credentials: access,
      sha256: client.config.sha256,
    });
    const { protocol, hostname, port, host } = new URL(access.endpoint);
    const request = await signer.sign({
      method: 'POST',
      protocol,
      hostname,
      port: Number(port),
      path: '/',
      query: {},
      headers: { host, 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({
        Action: 'AssumeRole',
        Version: '2011-06-15',
        DurationSeconds: String(durationSeconds),
        Policy: JSON.stringify({ Version: '2012-10-17', ...policy }),
      }).toString(),
    });
    const { response } = await client.config.requestHandler.handle(request as never);
    const text = await readText(response.body as Readable);
    if (response.statusCode !== 200)
      throw new Error(`AssumeRole was answered with ${response.statusCode}: ${text}`);
    return parseCredentials(text);
  } finally {
    client.destroy();
  }
}

function parseCredentials(xml: string): Required<S3Credentials> {
  const field = (name: string) => {
    const value = new RegExp(`<${name}>([^<]+)</${name}>`).exec(xml)?.[1];
    if (value === undefined) throw new Error(`the answer to AssumeRole has no ${name}`);
    return value;
  };
  return {
    accessKeyId: field('AccessKeyId'),
    secretAccessKey: field('SecretAccessKey'),
    sessionToken: field('SessionToken'),
  };
}

/** Deletes every object whose key begins with `prefix`. */
export async function deletePrefix(client: S3Client, bucket: string, prefix: string): Promise<void> {
  for (;;) {
    const page = await client.send(new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix }));
    const objects = (page.Contents ?? []).map(({ Key }) => ({ Key }));
    if (objects.length === 0) return;
    const deleted = await client.send(
      new DeleteObjectsCommand({ Bucket: bucket, Delete: { Objects: objects, Quiet: true } }),
    );
    const [error] = deleted.Errors ?? [];
    if (error) throw new Error(`${error.Key} cannot be deleted: ${error.Code} ${error.Message}`);
  }
}

/** A bucket through the SDK. `close` destroys the client. */
export function s3View(client: S3Client, bucket: string): BucketView {
  return {
    create: async (key, bytes) => {
      try {
        const put = new PutObjectCommand({ Bucket: bucket, Key: key, Body: bytes, IfNoneMatch: '*' });
        await client.send(put);
        return 'created';
      } catch (error) {
        const status = (error as { $metadata?: { httpStatusCode?: number } }).$metadata?.httpStatusCode;
        if (status === 412) return 'exists';
        // The server asks for another try and has created nothing.
        if (status === 409) return 'again';
        throw error;
      }
    },
    list: (prefix) => listKeys(client, bucket, prefix),
    read: async (key) => {
      const { Body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key: key }));
      if (Body === undefined) throw new Error(`${key} has no body`);
      return Body.transformToByteArray();
    },
    deletePrefix: (prefix) => deletePrefix(client, bucket, prefix),
    close: () => client.destroy(),
  };
}

async function listKeys(client: S3Client, bucket: string, prefix: string): Promise<string[]> {
  const keys: string[] = [];
  let after: string | undefined;
  do {
    const page = await client.send(
      new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix, ContinuationToken: after }),
    );
    for (const { Key = '' } of page.Contents ?? []) keys.push(Key);
    after = page.NextContinuationToken;
  } while (after !== undefined);
  return keys;
}

/**
 * A client with the bucket's settings. If `env` holds no keys, credentials are found as by any AWS
 * tool. The caller destroys it.
 */
export async function s3ClientOf(bucket: TestBucket): Promise<S3Client> {
  const { endpoint, env } = bucket;
  const { query } = partsOfBucket(bucket);
  const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey } = env;
  const sessionToken = env['AWS_SESSION_TOKEN'];
  const ca = query.get('ca');
  return new S3Client({
    ...(endpoint !== undefined && { endpoint, forcePathStyle: query.get('pathStyle') !== 'false' }),
    region: query.get('region') ?? 'us-east-1',
    followRegionRedirects: true,
    ...(accessKeyId &&
      secretAccessKey && {
        credentials: { accessKeyId, secretAccessKey, ...(sessionToken && { sessionToken }) },
      }),
    ...(ca !== null && { requestHandler: { httpsAgent: { ca: await readFile(ca) } } }),
  });
}

/** The bucket of a place, through the SDK. */
export async function openS3Bucket(bucket: TestBucket): Promise<BucketView> {
  return s3View(await s3ClientOf(bucket), bucket.bucket);
}
