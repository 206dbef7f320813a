/** Messages between the parent of a race and its workers. */

/** Module from which a worker gets its store. */
export interface StoreModule {
  /** URL of a module. */
  readonly module: string;
  /** Its function that opens a store: `(...args) => ObjectStore | Promise<ObjectStore>`. */
  readonly exportName: string;
  /** Plain data. */
  readonly args: readonly unknown[];
}

export type RaceOrder =
  | { readonly type: 'open'; readonly store: StoreModule }
  /** Create `key` with each of these texts at the same time. */
  | { readonly type: 'create'; readonly key: string; readonly texts: readonly string[] }
  | { readonly type: 'read'; readonly key: string }
  | { readonly type: 'close'; readonly keys: readonly string[] };

export type RaceAnswer =
  | { readonly type: 'done' }
  /** One per text, in order: `created`, `lost`, or the error in words. */
  | { readonly type: 'outcomes'; readonly outcomes: readonly string[] }
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'failed'; readonly message: string };
