/** Access to a Google Cloud Storage server for tests, through the SDK and past the adapter. */

import { randomBytes } from 'node:crypto';
import { type ApiError, type Bucket, IdempotencyStrategy, Storage } from '@google-cloud/storage';
import { type BucketView, partsOfBucket, type TestBucket } from './test-bucket.ts';

const REQUEST_TIMEOUT_MS = 20_000;
const DELETES_MAX = 32;

/** With an endpoint, no credentials are needed. Otherwise they are found as by any Google tool. */
export function gcsClient(endpoint: string | undefined, userProject?: string): Storage {
  return new Storage({
    ...(endpoint !== undefined && { apiEndpoint: endpoint, projectId: 'holdfast-test' }),
    ...(userProject !== undefined && { userProject }),
    timeout: REQUEST_TIMEOUT_MS,
    retryOptions: { autoRetry: false, maxRetries: 0, idempotencyStrategy: IdempotencyStrategy.RetryNever },
  });
}

/** A new bucket of a server that this process started. */
export async function newGcsBucket(endpoint: string): Promise<TestBucket> {
  const bucket = `holdfast-test-${randomBytes(6).toString('hex')}`;
  await gcsClient(endpoint).createBucket(bucket);
  const query = new URLSearchParams({ endpoint });
  return { uri: `gs://${bucket}/run?${query}`, env: {}, bucket, endpoint };
}

/** The bucket of a place, through the SDK. */
export async function openGcsBucket(place: TestBucket): Promise<BucketView> {
  const { query } = partsOfBucket(place);
  const client = gcsClient(place.endpoint, query.get('userProject') ?? undefined);
  const bucket = client.bucket(place.bucket);
  return {
    create: async (key, bytes) => {
      try {
        const options = { resumable: false, validation: false, preconditionOpts: { ifGenerationMatch: 0 } };
        await bucket.file(key).save(Buffer.from(bytes), options);
        return 'created';
      } catch (error) {
        const { code } = error as ApiError;
        if (code === 412) return 'exists';
        // The server asks for another try and has created nothing.
        if (code === 409) return 'again';
        throw error;
      }
    },
    list: (prefix) => listKeys(bucket, prefix),
    read: (key) => readObject(client, place, key),
    deletePrefix: async (prefix) => {
      const keys = await listKeys(bucket, prefix);
      for (let at = 0; at < keys.length; at += DELETES_MAX) {
        const some = keys.slice(at, at + DELETES_MAX);
        await Promise.all(some.map((key) => bucket.file(key).delete({ ignoreNotFound: true })));
      }
    },
    close: () => undefined,
  };
}

/**
 * The library's own download is not used: it warns about its listeners if several run at once
 * (8.4.0).
 */
async function readObject(
  client: Storage,
  { bucket, endpoint }: TestBucket,
  key: string,
): Promise<Uint8Array> {
  const base = endpoint ?? 'https://storage.googleapis.com';
  const url = `${base}/storage/v1/b/${encodeURIComponent(bucket)}/o/${encodeURIComponent(key)}?alt=media`;
  const headers = endpoint === undefined ? await client.authClient.getRequestHeaders(url) : {};
  const answer = await fetch(url, { headers, signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS) });
  if (!answer.ok) throw new Error(`GET of ${key} was answered with ${answer.status}: ${await answer.text()}`);
  return new Uint8Array(await answer.arrayBuffer());
}

async function listKeys(bucket: Bucket, prefix: string): Promise<string[]> {
  const [files] = await bucket.getFiles({ prefix, autoPaginate: true });
  // The emulator may list a key twice at the boundary of pages.
  return [...new Set(files.map(({ name }) => name))];
}
