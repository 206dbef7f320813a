/** Suites that need a server that speaks Google Cloud Storage. */

import { newGcsBucket, openGcsBucket } from './gcs-access.ts';
import { type GcsServer, type GcsServerOptions, startFakeGcs } from './gcs-server.ts';
import { FAKE_GCS, goProgram } from './go-program.ts';
import { describeOnServer, describeOnUserStore, type OwnServer, trusted, whyNone } from './server-suite.ts';
import type { TestServer } from './test-bucket.ts';
import type { UserCloud } from './user-store.ts';

/** A server that the suite starts and stops. Tests may do anything to it. */
export type OwnGcsServer = OwnServer & GcsServer;

export const USER_GCS: UserCloud = {
  suite: 'gcs',
  variable: 'HOLDFAST_TEST_GCS',
  form: 'gs://bucket/prefix, with ?endpoint=… if need be',
  scheme: 'gs',
  credentials: /^(GOOGLE_|GCLOUD_|CLOUDSDK_|HOME$)/,
  openBucket: openGcsBucket,
};

const WHY_NO_FAKE_GCS = await whyNone(FAKE_GCS.title, () => goProgram(FAKE_GCS));

/**
 * A `describe` on the store that `HOLDFAST_TEST_GCS` names, or else on a fake-gcs-server that runs
 * as long as the suite. A probe has checked create-if-absent there. `describeOnServer` says what
 * happens if no server is available.
 */
export function describeOnGcs(name: string, body: (server: () => TestServer) => void): void {
  const onUserStore = describeOnUserStore(USER_GCS, name);
  if (onUserStore === undefined) describeOnFakeGcs(name, {}, body);
  else onUserStore(body);
}

/** Like `describeOnGcs`, always on a server that the suite starts. */
export function describeOnFakeGcs(
  name: string,
  options: GcsServerOptions,
  body: (server: () => OwnGcsServer) => void,
): void {
  const open = async () => {
    const server = await startFakeGcs(options);
    const newBucket = () => newGcsBucket(server.endpoint);
    return trusted(server, { title: FAKE_GCS.title, newBucket, openBucket: openGcsBucket });
  };
  describeOnServer({ suite: 'gcs', name, whyNone: WHY_NO_FAKE_GCS, open }, body);
}
