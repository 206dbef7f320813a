/** For tests of calls that must end in time, whatever the store does. */

import type { ObjectStore } from '@holdfast/core';
import { type MemoryBucket, MemoryStore } from '@holdfast/core/store';

/** Calls that a store that hangs may get. */
const CALLS = ['create', 'head', 'get', 'readInto', 'deleteMany', 'beginUpload', 'close'] as const;

export interface DeafStore {
  readonly store: ObjectStore;
  /**
   * From now on no call ends, whatever its signal says. `except`: calls that the store still
   * answers.
   */
  goDeaf(except?: readonly (typeof CALLS)[number][]): void;
}

/** A store that answers until `goDeaf` is called. */
export function deafStore(bucket: MemoryBucket): DeafStore {
  const store = new MemoryStore(bucket);
  let isDeafTo: (call: string) => boolean = () => false;
  const never = new Promise<never>(() => undefined);
  for (const call of CALLS) {
    const answer = (store[call] as (...args: unknown[]) => Promise<unknown>).bind(store);
    Object.assign(store, { [call]: (...args: unknown[]) => (isDeafTo(call) ? never : answer(...args)) });
  }
  const pages = store.list.bind(store);
  store.list = async function* (...args) {
    if (isDeafTo('list')) await never;
    yield* pages(...args);
  };
  return {
    store,
    goDeaf(except = []) {
      isDeafTo = (call) => !except.some((each) => each === call);
    },
  };
}
