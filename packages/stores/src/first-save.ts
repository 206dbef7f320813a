/** What is looked at once, before a run is begun: whether its place is one of its own. */

import { findRunsBelow } from '@holdfast/core';
import { CheckpointError, isStopOf, type ObjectStore } from '@holdfast/core/contract';
import { runAround } from '@holdfast/local-files';
import type { StoreEnvironment } from './env.ts';
import { openStore } from './open-store.ts';
import { pathOfFileUri } from './uri.ts';

/** Scheme and authority, the segments of the path, and the settings. Of `az://` the first segment is the container, and so no run's. */
const CLOUD_URI = /^((?:s3|gs):\/\/[^/?]+|az:\/\/[^/?]+\/[^/?]+)\/([^?]*)(\?.*)?$/i;
const PARENTS_MAX = 8;

/**
 * `InvalidArgument`: there are runs below, or the place lies in a run. Each would list the other's objects as foreign ones, and a mirror or a
 * removal by hand of the outer one would take the inner one too. Cost: one list request, and one for each segment of the path.
 */
export async function assertOwnPlace(
  uri: string,
  store: ObjectStore,
  env: StoreEnvironment | undefined,
  signal: AbortSignal,
): Promise<void> {
  const below = await findRunsBelow(store, { signal });
  const around = below.length > 0 ? null : await runAbove(uri, store.uri, env, signal);
  if (below.length === 0 && around === null) return;
  const what = around === null ? `holds runs already: ${below.join(', ')}` : `lies in the run ${around}`;
  throw new CheckpointError('InvalidArgument', `${store.uri} ${what}; each run has a place of its own`, {
    context: { store: store.uri, place: 'shared' },
  });
}

async function runAbove(
  uri: string,
  shownUri: string,
  env: StoreEnvironment | undefined,
  signal: AbortSignal,
): Promise<string | null> {
  const path = pathOfFileUri(shownUri);
  if (path !== null) return runAround(path);
  for (const parent of parentsOf(uri)) {
    if (await isRun(parent, env, signal)) return parent.replace(/\?.*$/s, '');
  }
  return null;
}

function parentsOf(uri: string): string[] {
  const [, base, path = '', query = ''] = CLOUD_URI.exec(uri) ?? [];
  if (base === undefined) return [];
  const segments = path.split('/').filter((segment) => segment !== '');
  return segments
    .slice(0, PARENTS_MAX)
    .map((_, index) => [base, ...segments.slice(0, segments.length - 1 - index)].join('/') + query);
}

/** What may not be looked at is taken for none: permissions of a trainer may end at its own prefix. */
async function isRun(uri: string, env: StoreEnvironment | undefined, signal: AbortSignal): Promise<boolean> {
  const store = await openStore(uri, env);
  try {
    for await (const { objects } of store.list('catalog/', { signal }))
      return objects.some(({ key }) => /^catalog\/\d{20}\.json$/.test(key));
    return false;
  } catch (error) {
    if (isStopOf(error, signal)) throw error;
    return false;
  } finally {
    await store.close();
  }
}
