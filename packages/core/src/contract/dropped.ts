/** Ends what belongs to an object that its holder has dropped without closing it. */

type End = () => void;

const registry = new FinalizationRegistry<End>((end) => end());

/**
 * Calls `end` once after `handle` has become garbage. When that is, the runtime decides: memory, claims and descriptors come back, but
 * nothing may rest on the moment. Neither `end` nor anything it refers to may refer to `handle`, or it never becomes garbage. Call what
 * this returns once there is nothing left to end.
 */
export function whenDropped(handle: object, end: End): () => void {
  const token = {};
  registry.register(handle, end, token);
  return () => void registry.unregister(token);
}
