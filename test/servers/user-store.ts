/**
 * The place on a user's store that tests run in: `HOLDFAST_TEST_S3`, `HOLDFAST_TEST_GCS`,
 * `HOLDFAST_TEST_AZURE`.
 */

import { randomBytes } from 'node:crypto';
import type { CloudSuite } from './config.ts';
import { createIfAbsentFault } from './probe.ts';
import {
  type BucketView,
  partsOfUri,
  type TestBucket,
  type TestServer,
  type UriParts,
} from './test-bucket.ts';

export interface UserStore extends TestServer {
  /** Deletes the objects in the places that `newBucket` returned. */
  stop(): Promise<void>;
}

/** What tests need to run on a user's store of this kind. */
export interface UserCloud {
  readonly suite: CloudSuite;
  /** Name of the variable. */
  readonly variable: string;
  /** Form that the variable must have, in words. */
  readonly form: string;
  readonly scheme: string;
  /** Names of the variables that hold the credentials, or point to them. */
  readonly credentials: RegExp;
  openBucket(bucket: TestBucket): Promise<BucketView>;
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The prefix must not be empty. Tests delete what is below their prefix, and a mistake must not
 * reach the rest of a bucket.
 */
export function parseUserPlace({ scheme, variable, form }: UserCloud, uri: string): UriParts {
  const parts = partsOfUri(uri);
  if (parts?.root.startsWith(`${scheme}://`) && parts.prefix !== '') return parts;
  throw new Error(`${variable} is ${uri}; it has to be ${form}`);
}

function credentialsIn(names: RegExp, env: Environment): Record<string, string> {
  const given = Object.entries(env).filter(([name, value]) => names.test(name) && value !== undefined);
  return Object.fromEntries(given) as Record<string, string>;
}

/** Rejects if the store does not enforce create-if-absent, which Holdfast depends on. */
export async function openUserStore(cloud: UserCloud, uri: string, env: Environment): Promise<UserStore> {
  const { root, bucket, prefix, query } = parseUserPlace(cloud, uri);
  const below = `${prefix}/holdfast-test-${randomBytes(6).toString('hex')}`;
  const place = (name: string): TestBucket => ({
    uri: `${root}/${encodeURI(`${below}/${name}`)}${query.size > 0 ? `?${query}` : ''}`,
    env: credentialsIn(cloud.credentials, env),
    bucket,
    endpoint: query.get('endpoint') ?? undefined,
  });
  const view = await cloud.openBucket(place('probe'));
  const stop = async () => {
    await view.deletePrefix(`${below}/`);
    view.close();
  };
  let count = 0;
  const newBucket = async () => place(String(++count));
  try {
    const fault = await createIfAbsentFault(view, `${below}/`, { rounds: 16, racers: 16 });
    if (fault !== undefined) throw new Error(`${uri} cannot be trusted: ${fault}`);
  } catch (error) {
    await stop().catch(() => view.close());
    throw error;
  }
  return { newBucket, stop };
}
