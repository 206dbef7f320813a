/** The clouds that Holdfast supports, for tests that must pass on each of them. */

import { describeOnAzure, describeOnAzurite, USER_AZURE } from './describe-on-azure.ts';
import { describeOnFakeGcs, describeOnGcs, USER_GCS } from './describe-on-gcs.ts';
import { describeOnMinio, describeOnS3, USER_S3 } from './describe-on-s3.ts';
import type { OwnServer } from './server-suite.ts';
import type { TestServer } from './test-bucket.ts';
import type { UserCloud } from './user-store.ts';

export interface Cloud extends UserCloud {
  readonly title: string;
  /** A `describe` on the user's store, or on a server that runs as long as the suite. */
  describeOn(name: string, body: (server: () => TestServer) => void): void;
  /**
   * A `describe` on a server that the suite starts, without TLS, so that a proxy between can read
   * the traffic.
   */
  describeOnOwn(name: string, body: (server: () => OwnServer) => void): void;
}

export const S3: Cloud = {
  ...USER_S3,
  title: 'S3',
  describeOn: describeOnS3,
  describeOnOwn: (name, body) => describeOnMinio(name, {}, body),
};

export const GCS: Cloud = {
  ...USER_GCS,
  title: 'GCS',
  describeOn: describeOnGcs,
  describeOnOwn: (name, body) => describeOnFakeGcs(name, {}, body),
};

export const AZURE: Cloud = {
  ...USER_AZURE,
  title: 'Azure',
  describeOn: describeOnAzure,
  describeOnOwn: (name, body) => describeOnAzurite(name, {}, body),
};

export const CLOUDS: readonly Cloud[] = [S3, GCS, AZURE];
