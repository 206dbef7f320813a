/**
 * The modules that a worker loads. They lie beside this one. The build of the packed command
 * replaces this file, because it puts them elsewhere.
 */

const ending = import.meta.url.endsWith('.ts') ? '.ts' : '.js';

export const THREAD_FILE = new URL(`./thread${ending}`, import.meta.url);
export const CHECKSUM_SERVICE = new URL(`./checksum-service${ending}`, import.meta.url);
/** Flags of Node for a thread. The sources find each other by a condition. */
export const THREAD_FLAGS: readonly string[] =
  ending === '.ts' ? ['--conditions=holdfast-source', '--disable-warning=ExperimentalWarning'] : [];
