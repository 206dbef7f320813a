/**
 * A run in a bucket as a later process sees it. It is read with the SDK, independently of the
 * adapter under test.
 */

import { openStore } from '@holdfast/stores';
import type { RunView } from '../crash/invariants.ts';
import type { Cloud } from '../servers/clouds.ts';
import { type BucketView, partsOfBucket, type TestBucket } from '../servers/test-bucket.ts';
import { openUploadsOf } from './open-uploads.ts';

/** Prefix of the adapters' internal objects. */
const OWN_PREFIX = '.holdfast-';
const READS_MAX = 16;

export interface SeenCloud extends Pick<Cloud, 'suite'> {
  openBucket(run: TestBucket): Promise<SeenBucket>;
}

export type SeenBucket = Pick<BucketView, 'list' | 'read' | 'close'>;

/** Reads all records and lists all uploads now. Later changes do not appear. */
export async function viewOfRun(cloud: SeenCloud, run: TestBucket): Promise<RunView> {
  const view = await cloud.openBucket(run);
  try {
    const prefix = `${partsOfBucket(run).prefix}/`;
    const all = (await view.list(prefix)).map((key) => key.slice(prefix.length));
    const keys = all.filter((key) => !key.startsWith(OWN_PREFIX));
    const names = keys.filter((key) => key.endsWith('.json'));
    const records = await readAll(view, prefix, names);
    const uploads = await openUploadsOf(cloud, run, tokensIn(records));
    const store = await openStore(run.uri, run.env);
    return {
      violations: [],
      keys: () => keys,
      read: (key) => records.get(key),
      openUploads: () => uploads,
      openStore: () => store,
    };
  } finally {
    view.close();
  }
}

async function readAll(view: SeenBucket, prefix: string, names: readonly string[]) {
  const records = new Map<string, Uint8Array>();
  for (let at = 0; at < names.length; at += READS_MAX) {
    const some = names.slice(at, at + READS_MAX);
    const read = await Promise.all(some.map((name) => view.read(prefix + name)));
    for (const [index, name] of some.entries()) records.set(name, read[index] as Uint8Array);
  }
  return records;
}

/** Tokens in the upload records. */
function tokensIn(records: ReadonlyMap<string, Uint8Array>): string[] {
  const uploads = [...records].filter(([key]) => key.startsWith('uploads/'));
  return uploads.map(([, bytes]) => {
    const { token } = JSON.parse(new TextDecoder().decode(bytes)) as { token: string };
    return token;
  });
}
