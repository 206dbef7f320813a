/** Suites that need a server: they decide whether tests run, and start and stop the server. */

import { afterAll, beforeAll, describe } from 'vitest';
import { ServerUnavailable } from './cached-build.ts';
import { type Suite, testConfig } from './config.ts';
import { createIfAbsentFault } from './probe.ts';
import { type RunningServer, requireServerRoom } from './start-server.ts';
import type { BucketView, TestBucket, TestServer } from './test-bucket.ts';
import { openUserStore, type UserCloud } from './user-store.ts';

/** A server that the suite starts and stops. Tests may do anything to it. */
export interface OwnServer extends TestServer, RunningServer {
  /** `http://127.0.0.1:port`, or https. */
  readonly endpoint: string;
}

// Starting takes a second, but the machine may be busy with other tests.
const START_TIMEOUT_MS = 60_000;

const CONFIG = testConfig(process.env);

/**
 * Returns why no server is available here, or `undefined` if one is. Await it at the top of a
 * module: programs are then built while tests are collected. In a hook, the build would run into a
 * timeout.
 */
export async function whyNone(
  title: string,
  prepare: () => Promise<unknown>,
  requireRoom: (title: string) => Promise<void> = requireServerRoom,
): Promise<string | undefined> {
  try {
    await requireRoom(title);
    await prepare();
    return undefined;
  } catch (error) {
    if (error instanceof ServerUnavailable) return error.message;
    throw error;
  }
}

export interface ServerSuite<T> {
  readonly suite: Suite;
  readonly name: string;
  /** Why there is no server, or `undefined` if there is one. */
  readonly whyNone: string | undefined;
  open(): Promise<T>;
}

/**
 * A `describe` with a server that runs as long as the suite. If no server is available, the suite
 * is skipped, with a line that says why. If `HOLDFAST_REQUIRE` names the suite, it fails instead.
 * `server()` may be called in tests and hooks.
 */
export function describeOnServer<T extends { stop(): Promise<void> }>(
  { suite, name, whyNone, open }: ServerSuite<T>,
  body: (server: () => T) => void,
): void {
  if (whyNone !== undefined) {
    if (CONFIG.requiredSuites.has(suite)) throw new Error(`HOLDFAST_REQUIRE names ${suite}, but ${whyNone}`);
    console.warn(`SKIPPED: ${name}: ${whyNone}`);
  }
  describe.skipIf(whyNone !== undefined)(name, () => withServer(open, body));
}

/**
 * The same on the store that the user's variable names. Returns `undefined` if the variable is not
 * set.
 */
export function describeOnUserStore(
  cloud: UserCloud,
  name: string,
): ((body: (server: () => TestServer) => void) => void) | undefined {
  const uri = CONFIG.userUris[cloud.suite];
  if (uri === undefined) return undefined;
  const open = () => openUserStore(cloud, uri, process.env);
  return (body) => describeOnServer({ suite: cloud.suite, name, whyNone: undefined, open }, body);
}

/** Checks that a server just started enforces create-if-absent. Otherwise stops it and rejects. */
export async function trusted<T extends RunningServer>(
  server: T,
  { title, newBucket, openBucket }: TrustOptions,
): Promise<T & TestServer> {
  try {
    const view = await openBucket(await newBucket());
    try {
      const fault = await createIfAbsentFault(view, '');
      if (fault !== undefined) throw new Error(`${title} cannot be trusted: ${fault}`);
    } finally {
      view.close();
    }
    return { ...server, newBucket };
  } catch (error) {
    await server.stop();
    throw error;
  }
}

export interface TrustOptions {
  readonly title: string;
  newBucket(): Promise<TestBucket>;
  openBucket(bucket: TestBucket): Promise<BucketView>;
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
