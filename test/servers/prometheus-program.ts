/**
 * Prometheus and promtool: the package of Debian and its derivatives, unpacked into the cache
 * without root rights.
 */

import { join } from 'node:path';
import { cachedBuild, ServerUnavailable } from './cached-build.ts';
import { type DebianFetch, PATIENT, unpackDebianPackages } from './debian-packages.ts';

export const PROMETHEUS_TITLE = 'Prometheus';
/** Name of the directory in the cache. The version is the distribution's: 2.42 in Debian 12. */
export const PROMETHEUS_HOME = 'prometheus-of-distribution';
export const PROMETHEUS_FILE = 'usr/bin/prometheus';

/**
 * Returns the paths of the programs, and fetches them if they are missing, as `cachedBuild` does.
 * Throws `ServerUnavailable` if they cannot be fetched.
 */
export async function prometheusPrograms(
  fetch: DebianFetch = PATIENT,
): Promise<{ prometheus: string; promtool: string }> {
  const prometheus = await cachedBuild({
    title: PROMETHEUS_TITLE,
    home: PROMETHEUS_HOME,
    file: PROMETHEUS_FILE,
    build: (directory) => unpack(directory, fetch),
  });
  return { prometheus, promtool: join(prometheus, '..', 'promtool') };
}

async function unpack(directory: string, fetch: DebianFetch): Promise<void> {
  try {
    await unpackDebianPackages(
      {
        title: PROMETHEUS_TITLE,
        names: ['prometheus'],
        directory,
        check: [join(directory, PROMETHEUS_FILE), '--version'],
      },
      fetch,
    );
  } catch (error) {
    if (!(error instanceof ServerUnavailable)) throw error;
    throw new ServerUnavailable(`install the package prometheus of Debian (${error.message})`);
  }
}
