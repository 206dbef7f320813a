/** Ends what belongs to an object that its holder has dropped without closing it. */

type End = () => void;

const registry = new FinalizationRegistry<End>((end) => end());

/**
 * Calls `end` once after `handle` has become garbage. When that is, the runtime decides: memory, claims and descriptors come back, but
 * nothing may rest on the moment. Neither `end` nor anything it refers to may refer to `handle`, or it never becomes garbage.
 */
export function whenDropped(handle: object, end: End): void {
  registry.register(handle, end);
}
