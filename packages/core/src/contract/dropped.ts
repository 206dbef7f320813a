/** Cleans up after an object that was dropped without being closed. */

type End = () => void;

const registry = new FinalizationRegistry<End>((end) => end());

/**
 * Calls `end` once after `handle` has become garbage. The runtime decides when: memory, leases and
 * descriptors are freed eventually, but no code may depend on the moment. Neither `end` nor
 * anything it refers to may refer to `handle`, or `handle` never becomes garbage. Call the returned
 * function once there is nothing left to clean up.
 */
export function whenDropped(handle: object, end: End): () => void {
  const token = {};
  registry.register(handle, end, token);
  return () => void registry.unregister(token);
}
