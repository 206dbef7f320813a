/**
 * The modules that a worker loads, in the same directory as this file. The build of the packed
 * command puts them elsewhere, so it replaces this file. If a user bundles the library, this code
 * is in a file of another name, and the modules cannot be found: then there are no workers.
 */

const ending = import.meta.url.endsWith('.ts') ? '.ts' : '.js';
const isBundled = !import.meta.url.endsWith(`/workers/worker-files${ending}`);

/** `null`: the module cannot be found, so no thread can be started. */
export const THREAD_FILE: URL | null = isBundled ? null : new URL(`./thread${ending}`, import.meta.url);
export const CHECKSUM_SERVICE = new URL(`./checksum-service${ending}`, import.meta.url);
/** Flags of Node for a thread. A thread that runs sources needs the condition to import others. */
export const THREAD_FLAGS: readonly string[] =
  ending === '.ts' ? ['--conditions=holdfast-source', '--disable-warning=ExperimentalWarning'] : [];
