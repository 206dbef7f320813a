/** Suites that need a server that speaks S3: the one place that decides whether they run. */

import { afterAll, beforeAll, describe } from 'vitest';
import { testConfig } from './config.ts';
import { type GoProgram, goProgram, MINIO, ServerUnavailable, VERSITYGW } from './go-program.ts';
import { createIfAbsentFault, newBucketOf, s3Client, type TestBucket } from './s3-access.ts';
import { type MinioOptions, type S3Server, startMinio, startVersitygw } from './s3-servers.ts';
import { requireServerRoom } from './start-server.ts';
import { openUserStore } from './user-store.ts';

export interface S3TestServer {
  /** A place where nothing is, of this caller alone. */
  newBucket(): Promise<TestBucket>;
}

/** One that runs as long as the suite, which may do to it what it likes. */
export interface OwnTestServer extends S3TestServer, S3Server {}

// Starting takes a second; the machine may be busy with other tests.
const START_TIMEOUT_MS = 60_000;

const CONFIG = testConfig(process.env);

/**
 * Why a server cannot be had here; nothing if it can. Programs are built now, while tests are collected, and not in a hook, where that
 * would run into a timeout.
 */
const WHY_NO_MINIO = await whyNone(MINIO);
const WHY_NO_VERSITYGW = await whyNone(VERSITYGW);

async function whyNone(program: GoProgram): Promise<string | undefined> {
  try {
    await requireServerRoom(program.title);
    await goProgram(program);
    return undefined;
  } catch (error) {
    if (error instanceof ServerUnavailable) return error.message;
    throw error;
  }
}

/**
 * A `describe` on what `HOLDFAST_TEST_S3` names, else on a MinIO that runs as long as the suite. It has been seen to enforce
 * create-if-absent. Where there can be no server the suite is skipped, with a line that says why, unless `HOLDFAST_REQUIRE` names s3:
 * then it fails. `server()` may be called in tests and hooks.
 */
export function describeOnS3(name: string, body: (server: () => S3TestServer) => void): void {
  const uri = CONFIG.s3Uri;
  if (uri === undefined) describeOnMinio(name, {}, body);
  else describe(name, () => withServer(() => openUserStore(uri, process.env), body));
}

/** As `describeOnS3`, for what only a MinIO of one's own lets a test do: policies, TLS, stopping it. */
export function describeOnMinio(
  name: string,
  options: MinioOptions,
  body: (server: () => OwnTestServer) => void,
): void {
  describeUnless(WHY_NO_MINIO, name, () => withServer(() => openMinio(options), body));
}

/** On a versitygw, whose create-if-absent lets two in now and then: what a store looks like that must not be trusted. */
export function describeOnVersitygw(name: string, body: (server: () => OwnTestServer) => void): void {
  describeUnless(WHY_NO_VERSITYGW, name, () => withServer(openVersitygw, body));
}

function describeUnless(whyNone: string | undefined, name: string, body: () => void): void {
  if (whyNone !== undefined) {
    if (CONFIG.requiredSuites.has('s3')) throw new Error(`HOLDFAST_REQUIRE names s3, but ${whyNone}`);
    console.warn(`SKIPPED: ${name}: ${whyNone}`);
  }
  describe.skipIf(whyNone !== undefined)(name, body);
}

function withServer<T extends { stop(): Promise<void> }>(
  open: () => Promise<T>,
  body: (server: () => T) => void,
): void {
  let server: T | undefined;
  beforeAll(async () => {
    server = await open();
  }, START_TIMEOUT_MS);
  afterAll(async () => {
    await server?.stop();
  }, START_TIMEOUT_MS);
  body(() => {
    if (server === undefined) throw new Error('the server runs in tests and hooks only');
    return server;
  });
}

async function openMinio(options: MinioOptions): Promise<OwnTestServer> {
  const server = await startMinio(options);
  const newBucket = () => newBucketOf(server);
  const client = await s3Client(server);
  try {
    const { bucket } = await newBucket();
    const fault = await createIfAbsentFault(client, bucket, '');
    if (fault !== undefined) throw new Error(`${MINIO.title} cannot be trusted: ${fault}`);
    return { ...server, newBucket };
  } catch (error) {
    await server.stop();
    throw error;
  } finally {
    client.destroy();
  }
}

async function openVersitygw(): Promise<OwnTestServer> {
  const server = await startVersitygw();
  return { ...server, newBucket: () => newBucketOf(server) };
}
