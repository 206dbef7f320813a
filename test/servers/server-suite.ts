/** Suites that need a server: whether they run, and for how long their server does. */

import { afterAll, beforeAll, describe } from 'vitest';
import { ServerUnavailable } from './cached-build.ts';
import { type Suite, testConfig } from './config.ts';
import { createIfAbsentFault } from './probe.ts';
import { type RunningServer, requireServerRoom } from './start-server.ts';
import type { BucketView, TestBucket, TestServer } from './test-bucket.ts';
import { openUserStore, type UserCloud } from './user-store.ts';

/** One that runs as long as the suite, which may do to it what it likes. */
export interface OwnServer extends TestServer, RunningServer {
  /** `http://127.0.0.1:port`, or https. */
  readonly endpoint: string;
}

// Starting takes a second; the machine may be busy with other tests.
const START_TIMEOUT_MS = 60_000;

const CONFIG = testConfig(process.env);

/**
 * Why a server cannot be had here; nothing if it can. To be awaited where a module begins: programs are built while tests are
 * collected, and not in a hook, where that would run into a timeout.
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
  /** Why there is no server; nothing if there is one. */
  readonly whyNone: string | undefined;
  open(): Promise<T>;
}

/**
 * A `describe` with a server that runs as long as it. Where there can be none it is skipped, with a line that says why, unless
 * `HOLDFAST_REQUIRE` names the suite: then it fails. `server()` may be called in tests and hooks.
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

/** The same on what the user's variable names; nothing if it names nothing. */
export function describeOnUserStore(
  cloud: UserCloud,
  name: string,
): ((body: (server: () => TestServer) => void) => void) | undefined {
  const uri = CONFIG.userUris[cloud.suite];
  if (uri === undefined) return undefined;
  const open = () => openUserStore(cloud, uri, process.env);
  return (body) => describeOnServer({ suite: cloud.suite, name, whyNone: undefined, open }, body);
}

/** A server just started, once it has been seen to enforce create-if-absent; else it is stopped. */
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
