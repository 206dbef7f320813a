/**
 * The modules that a worker loads. They lie beside this one. The build of the packed command
 * replaces this file, because it puts them elsewhere. In a bundle of the user this code has another
 * file name, and beside it may lie anything: there are no workers then.
 */

const ending = import.meta.url.endsWith('.ts') ? '.ts' : '.js';
const isBundled = !import.meta.url.endsWith(`/workers/worker-files${ending}`);

/** `null`: no module for threads is known. */
export const THREAD_FILE: URL | null = isBundled ? null : new URL(`./thread${ending}`, import.meta.url);
export const CHECKSUM_SERVICE = new URL(`./checksum-service${ending}`, import.meta.url);
/** Flags of Node for a thread. The sources find each other by a condition. */
export const THREAD_FLAGS: readonly string[] =
  ending === '.ts' ? ['--conditions=holdfast-source', '--disable-warning=ExperimentalWarning'] : [];
