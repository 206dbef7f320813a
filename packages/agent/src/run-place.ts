/** Tells whether two URIs name one run. */

import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { openStore } from '@holdfast/stores';
import { realPlace } from './config.ts';

/**
 * One text for all forms of a run's URI: without settings, double slashes and links of directories.
 * Sends no request. Runs of one name at two endpoints are not told apart.
 */
export async function runPlace(
  uri: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<string> {
  const store = await openStore(uri, env);
  await store.close();
  if (!store.uri.startsWith('file:')) return store.uri;
  return `file://${await realPlace(resolve(fileURLToPath(store.uri)))}`;
}
