/** A restore target that drops verified bytes, so that a measurement shows the cost of fetching. */
export const NOWHERE = {
  open: async () => ({ writeAt: async () => undefined, close: async () => undefined }),
  publish: async () => undefined,
  discard: async () => undefined,
};
