/** A run in a bucket as somebody finds it who comes later. It is looked at with the SDK, not with the adapter that is under test. */

import {
  GetObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  ListPartsCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { openS3Store } from '@holdfast/store-s3';
import type { RunView } from '../crash/invariants.ts';
import type { TestBucket } from '../servers/s3-access.ts';

interface Place {
  readonly client: S3Client;
  readonly bucket: string;
  /** Of the run's keys; ends in '/'. */
  readonly prefix: string;
}

/** Reads all records and lists all uploads now; what happens later does not show. */
export async function viewOfRun(run: TestBucket): Promise<RunView> {
  const place = openPlace(run);
  try {
    const keys = await keysBelow(place);
    const records = new Map<string, Uint8Array>();
    for (const key of keys.filter((each) => each.endsWith('.json'))) records.set(key, await read(place, key));
    const uploads = await uploadsBelow(place, records);
    const store = await openS3Store(run.uri, run.env);
    return {
      violations: [],
      keys: () => keys,
      read: (key) => records.get(key),
      openUploads: () => uploads,
      openStore: () => store,
    };
  } finally {
    place.client.destroy();
  }
}

/** The keys of the run, ascending. */
export async function keysOf(run: TestBucket): Promise<string[]> {
  const place = openPlace(run);
  try {
    return await keysBelow(place);
  } finally {
    place.client.destroy();
  }
}

function openPlace({ uri, env, bucket, endpoint }: TestBucket): Place {
  const [, path = '', query = ''] = /^s3:\/\/[^/]+\/([^?]*)\??(.*)$/.exec(uri) ?? [];
  const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey } = env;
  const client = new S3Client({
    region: new URLSearchParams(query).get('region') ?? 'us-east-1',
    followRegionRedirects: true,
    ...(endpoint !== undefined && { endpoint, forcePathStyle: true }),
    ...(accessKeyId && secretAccessKey && { credentials: { accessKeyId, secretAccessKey } }),
  });
  return { client, bucket, prefix: `${decodeURIComponent(path)}/` };
}

async function keysBelow({ client, bucket, prefix }: Place): Promise<string[]> {
  const keys: string[] = [];
  let after: string | undefined;
  do {
    const page = await client.send(
      new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix, ContinuationToken: after }),
    );
    for (const { Key = '' } of page.Contents ?? []) keys.push(Key.slice(prefix.length));
    after = page.NextContinuationToken;
  } while (after !== undefined);
  return keys;
}

async function read({ client, bucket, prefix }: Place, key: string): Promise<Uint8Array> {
  const { Body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key: prefix + key }));
  if (Body === undefined) throw new Error(`${key} has no body`);
  return Body.transformToByteArray();
}

async function uploadsBelow(place: Place, records: ReadonlyMap<string, Uint8Array>) {
  const { client, bucket, prefix } = place;
  const recorded = recordedTokens(records);
  // Without a prefix: MinIO takes it for a whole key.
  const { Uploads = [], IsTruncated } = await client.send(
    new ListMultipartUploadsCommand({ Bucket: bucket }),
  );
  if (IsTruncated) throw new Error(`${bucket} has more uploads than one page shows`);
  const below = Uploads.filter(({ Key = '' }) => Key.startsWith(prefix));
  return Promise.all(
    below.map(async ({ Key, UploadId = '' }) => {
      const { Parts = [] } = await client.send(new ListPartsCommand({ Bucket: bucket, Key, UploadId }));
      const token = recorded.get(UploadId) ?? `none recorded of ${UploadId}`;
      return { key: (Key ?? '').slice(prefix.length), token, partCount: Parts.length };
    }),
  );
}

/** Tokens of the upload records, by the upload's id in S3. */
function recordedTokens(records: ReadonlyMap<string, Uint8Array>): Map<string, string> {
  const tokens = new Map<string, string>();
  for (const [key, bytes] of records) {
    if (!key.startsWith('uploads/')) continue;
    const { token } = JSON.parse(new TextDecoder().decode(bytes)) as { token: string };
    const { uploadId } = JSON.parse(Buffer.from(token, 'base64url').toString()) as { uploadId: string };
    tokens.set(uploadId, token);
  }
  return tokens;
}
