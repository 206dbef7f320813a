/** Checks once, before a run is begun, its place: that it is found again, and not shared. */

import { resolve } from 'node:path';
import { findRunsBelow, hasRunAt, type RunsBelow } from '@holdfast/core';
import { CheckpointError, isObjectKey, isStopOf, type ObjectStore } from '@holdfast/core/contract';
import { runAround } from '@holdfast/local-files';
import type { StoreEnvironment } from './env.ts';
import { openStore } from './open-store.ts';
import { pathOfFileUri } from './uri.ts';

/**
 * Scheme and authority, the segments of the path, and the settings. The first segment of `az://` is
 * the container, so it cannot be a run.
 */
const CLOUD_URI = /^((?:s3|gs):\/\/[^/?]+|az:\/\/[^/?]+\/[^/?]+)\/([^?]*)(\?.*)?$/i;
const PARENTS_MAX = 8;
/** For about a thousand directories. A place of a run has no more before its first save. */
const SEARCH_REQUESTS_MAX = 2000;

/**
 * Throws `InvalidArgument` if there are runs below the place, if it lies in a run, or if no search
 * for runs would find it. Runs that share a place would list each other's objects as foreign ones.
 * A mirror or a manual removal of the outer run would include the inner one. A place with more
 * than about a thousand directories counts as one with runs. Cost: one list request, two for each
 * directory below, and one for each segment of the path.
 */
export async function assertOwnPlace(
  uri: string,
  store: {
    /** The URI in a form that may be shown. */
    readonly uri: string;
    readonly records: Pick<ObjectStore, 'list' | 'listDirectories'>;
    readonly env: StoreEnvironment | undefined;
  },
  signal: AbortSignal,
): Promise<void> {
  assertFound(uri, store.uri);
  const below = await findRunsBelow(store.records, { signal, requestsMax: SEARCH_REQUESTS_MAX });
  const around = below.names.length > 0 ? null : await findRunAround(uri, store, signal);
  if (below.names.length === 0 && around === null && below.isWhole) return;
  const what = around === null ? whatIsBelow(below) : `lies in the run ${around}`;
  throw new CheckpointError('InvalidArgument', `${store.uri} ${what}; each run needs a separate place`, {
    context: { store: store.uri, place: 'shared' },
  });
}

function whatIsBelow({ names }: RunsBelow): string {
  if (names.length > 0) return `holds runs already: ${names.join(', ')}`;
  return 'holds more directories than are searched for runs';
}

/** A search goes by the names of directories, and passes over names that no key may have. */
function assertFound(uri: string, shownUri: string): void {
  if (segmentsOf(uri, shownUri).every(isObjectKey)) return;
  const why = 'a segment of its path is empty, has a control character, or begins with ".holdfast-"';
  throw new CheckpointError('InvalidArgument', `no search would find a run at ${shownUri}: ${why}`, {
    context: { store: shownUri },
  });
}

function segmentsOf(uri: string, shownUri: string): string[] {
  const path = pathOfFileUri(shownUri);
  if (path !== null) return resolve(path).split('/').slice(1);
  const [, , below = ''] = CLOUD_URI.exec(uri) ?? [];
  return below === '' ? [] : below.replace(/\/$/, '').split('/').map(decodeURIComponent);
}

/**
 * The run that the place of a URI lies in; `null`: none. `store.uri`: the URI in a form that may be
 * shown. Cost: one request for each segment of the path.
 */
export async function findRunAround(
  uri: string,
  { uri: shownUri, env }: { readonly uri: string; readonly env: StoreEnvironment | undefined },
  signal: AbortSignal,
): Promise<string | null> {
  const path = pathOfFileUri(shownUri);
  if (path !== null) return runAround(path);
  const [, base, below = '', query = ''] = CLOUD_URI.exec(uri) ?? [];
  if (base === undefined) return null;
  const segments = below.split('/').filter((segment) => segment !== '');
  if (segments.length === 0) return null;
  const store = await openStore(`${base}${query}`, env);
  try {
    for (let count = segments.length - 1; count >= 0 && count >= segments.length - PARENTS_MAX; count--) {
      const prefix = segments
        .slice(0, count)
        .map((segment) => `${segment}/`)
        .join('');
      if (await isRun(store, prefix, signal)) return `${base}/${prefix}`;
    }
    return null;
  } finally {
    await store.close();
  }
}

/**
 * A place that may not be read counts as no run: a trainer's permissions may end at its own prefix.
 */
async function isRun(store: ObjectStore, prefix: string, signal: AbortSignal): Promise<boolean> {
  try {
    return await hasRunAt(store, prefix, { signal });
  } catch (error) {
    if (isStopOf(error, signal)) throw error;
    return false;
  }
}
