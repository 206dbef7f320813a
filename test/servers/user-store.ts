/** The place on a store of the user's that tests run in: `HOLDFAST_TEST_S3`. */

import { randomBytes } from 'node:crypto';
import { S3Client } from '@aws-sdk/client-s3';
import { createIfAbsentFault, deletePrefix, type TestBucket } from './s3-access.ts';

export interface UserStore {
  readonly newBucket: () => Promise<TestBucket>;
  /** Deletes what was put into the places that `newBucket` gave. */
  readonly stop: () => Promise<void>;
}

type Environment = Readonly<Record<string, string | undefined>>;

interface UserPlace {
  readonly bucket: string;
  /** Without '/' at its ends. */
  readonly prefix: string;
  readonly query: URLSearchParams;
}

const FORM = 's3://bucket/prefix, with ?endpoint=…&region=… if need be';

/** The prefix must not be empty: tests delete what is below theirs, and a slip must not reach the rest of a bucket. */
export function parseUserPlace(uri: string): UserPlace {
  const match = /^s3:\/\/([^/?#]+)\/([^?#]*)(?:\?([^#]*))?$/.exec(uri);
  const prefix = decodeURIComponent(match?.[2] ?? '').replace(/^\/+|\/+$/g, '');
  if (match?.[1] === undefined || prefix === '')
    throw new Error(`HOLDFAST_TEST_S3 is ${uri}; it has to be ${FORM}`);
  return { bucket: match[1], prefix, query: new URLSearchParams(match[3]) };
}

function userClient({ query }: UserPlace): S3Client {
  const endpoint = query.get('endpoint');
  return new S3Client({
    ...(endpoint !== null && { endpoint, forcePathStyle: query.get('pathStyle') !== 'false' }),
    region: query.get('region') ?? 'us-east-1',
    followRegionRedirects: true,
  });
}

function credentialsIn(env: Environment): Record<string, string> {
  const given = Object.entries(env).filter(
    ([name, value]) => /^(AWS_|HOME$)/.test(name) && value !== undefined,
  );
  return Object.fromEntries(given) as Record<string, string>;
}

/** Credentials are found as by any AWS tool. Rejects if the store does not enforce create-if-absent, on which everything rests. */
export async function openUserStore(uri: string, env: Environment): Promise<UserStore> {
  const place = parseUserPlace(uri);
  const { bucket, query } = place;
  const client = userClient(place);
  const root = `${place.prefix}/holdfast-test-${randomBytes(6).toString('hex')}`;
  const stop = async () => {
    await deletePrefix(client, bucket, `${root}/`);
    client.destroy();
  };
  let count = 0;
  const newBucket = async (): Promise<TestBucket> => {
    count++;
    const search = query.size > 0 ? `?${query}` : '';
    return {
      uri: `s3://${bucket}/${encodeURI(`${root}/${count}`)}${search}`,
      env: credentialsIn(env),
      bucket,
      endpoint: query.get('endpoint') ?? undefined,
    };
  };
  try {
    const fault = await createIfAbsentFault(client, bucket, `${root}/`, { rounds: 16, racers: 16 });
    if (fault !== undefined) throw new Error(`${uri} cannot be trusted: ${fault}`);
  } catch (error) {
    await stop().catch(() => client.destroy());
    throw error;
  }
  return { newBucket, stop };
}
