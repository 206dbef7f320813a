/** Suites that need a server that speaks S3. */

import { goProgram, MINIO, VERSITYGW } from './go-program.ts';
import { newBucketOf, openS3Bucket } from './s3-access.ts';
import { type MinioOptions, type S3Server, startMinio, startVersitygw } from './s3-servers.ts';
import { describeOnServer, describeOnUserStore, type OwnServer, trusted, whyNone } from './server-suite.ts';
import type { TestServer } from './test-bucket.ts';
import type { UserCloud } from './user-store.ts';

/** A server that the suite starts and stops. Tests may do anything to it. */
export type OwnTestServer = OwnServer & S3Server;

export const USER_S3: UserCloud = {
  suite: 's3',
  variable: 'HOLDFAST_TEST_S3',
  form: 's3://bucket/prefix, with ?endpoint=…&region=… if need be',
  scheme: 's3',
  credentials: /^(AWS_|HOME$)/,
  openBucket: openS3Bucket,
};

const WHY_NO_MINIO = await whyNone(MINIO.title, () => goProgram(MINIO));
const WHY_NO_VERSITYGW = await whyNone(VERSITYGW.title, () => goProgram(VERSITYGW));

/**
 * A `describe` on the store that `HOLDFAST_TEST_S3` names, or else on a MinIO that runs as long as
 * the suite. A probe has checked create-if-absent there. `describeOnServer` says what happens if no
 * server is available.
 */
export function describeOnS3(name: string, body: (server: () => TestServer) => void): void {
  const onUserStore = describeOnUserStore(USER_S3, name);
  if (onUserStore === undefined) describeOnMinio(name, {}, body);
  else onUserStore(body);
}

/**
 * Like `describeOnS3`, always on a MinIO that the suite starts: for policies, TLS and stopping it.
 */
export function describeOnMinio(
  name: string,
  options: MinioOptions,
  body: (server: () => OwnTestServer) => void,
): void {
  const open = async () => {
    const server = await startMinio(options);
    const newBucket = () => newBucketOf(server);
    return trusted(server, { title: MINIO.title, newBucket, openBucket: openS3Bucket });
  };
  describeOnServer({ suite: 's3', name, whyNone: WHY_NO_MINIO, open }, body);
}

/**
 * A `describe` on versitygw. Its create-if-absent sometimes lets two creates succeed: an example of
 * a store that must not be trusted.
 */
export function describeOnVersitygw(name: string, body: (server: () => OwnTestServer) => void): void {
  const open = async () => {
    const server = await startVersitygw();
    return { ...server, newBucket: () => newBucketOf(server) };
  };
  describeOnServer({ suite: 's3', name, whyNone: WHY_NO_VERSITYGW, open }, body);
}
