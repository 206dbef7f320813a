/** Listings of a store, page by page. */

import {
  type CallOptions,
  CheckpointError,
  type ListOptions,
  type ListPage,
  type ObjectStore,
  requestWatchOf,
  watchRequests,
} from '../contract/index.ts';
import type { Shared } from './shared.ts';
import { send } from './small-requests.ts';

/** Appended to a directory, it sorts after every key below that directory. */
export const LAST_CHARACTER = '\u{10ffff}';

/**
 * Collecting, verifying and checking hold data for every listed object: about 2 GB for this many. A
 * longer listing never ends, or is of a place that is not a run.
 */
export const LISTED_OBJECTS_MAX = 10_000_000;

/** A store may return empty pages, as for objects that were deleted, but not for ever. */
export const EMPTY_PAGES_MAX = 10_000;

/**
 * Page by page. A listing that breaks is begun again after the last key it has returned. The time
 * for that ends only with a page that brings a new key, and so do pages without one: they are not
 * returned, except for the last page of an empty listing. `Unsupported`: the listing has more than
 * `LISTED_OBJECTS_MAX` objects, or `EMPTY_PAGES_MAX` empty pages in a row.
 */
export async function* listPages(
  shared: Shared,
  prefix: string,
  options: ListOptions,
): AsyncGenerator<ListPage, void, void> {
  let { startAfter } = options;
  const listing = new Listing(shared, prefix, options, {
    begin: (signal) => shared.store.list(prefix, { ...(startAfter !== undefined && { startAfter }), signal }),
    isNews: ({ objects }) => objects.length > 0,
  });
  let objectCount = 0;
  try {
    for (let page = await listing.next(); page; page = await listing.next()) {
      startAfter = page.objects.at(-1)?.key ?? startAfter;
      objectCount += page.objects.length;
      if (objectCount > LISTED_OBJECTS_MAX) throw tooManyListed(shared.store, prefix);
      yield page;
    }
  } finally {
    listing.close();
  }
}

function tooManyListed(
  { uri }: ObjectStore,
  prefix: string,
  what = `more than ${LISTED_OBJECTS_MAX} objects`,
): CheckpointError {
  const where = prefix === '' ? uri : `${prefix} of ${uri}`;
  const message = `the store shows ${what} below ${where}, more than any run has`;
  const advice = [
    'check the URI: it must name a single run',
    'if it does, the listing of the store never ends',
  ];
  return new CheckpointError('Unsupported', message, { context: { store: uri, advice } });
}

/**
 * Names of directories, page by page. A store without such a listing is asked for the first object
 * of each directory instead: one request for each. A listing that breaks is begun again, without
 * the names that were returned.
 */
export async function* directoryPages(
  shared: Shared,
  prefix: string,
  options: CallOptions,
): AsyncGenerator<readonly string[], void, void> {
  const { store } = shared;
  if (!store.listDirectories) {
    yield* directoriesByObjects(shared, prefix, options);
    return;
  }
  const listDirectories = store.listDirectories.bind(store);
  const returned = new Set<string>();
  const listing = new Listing(shared, prefix, options, {
    begin: (signal) => listDirectories(prefix, { signal }),
    isNews: (names) => names.some((name) => !returned.has(name)),
  });
  try {
    for (let page = await listing.next(); page; page = await listing.next()) {
      const names = page.filter((name) => !returned.has(name));
      for (const name of names) returned.add(name);
      if (returned.size > LISTED_OBJECTS_MAX) throw tooManyListed(store, prefix);
      yield names;
    }
  } finally {
    listing.close();
  }
}

async function* directoriesByObjects(
  shared: Shared,
  prefix: string,
  { signal }: CallOptions,
): AsyncGenerator<readonly string[], void, void> {
  for (let startAfter: string | undefined; ; ) {
    const found = await firstDirectory(shared, prefix, { startAfter, signal });
    if (found === null) return;
    yield [found];
    startAfter = `${prefix}${found}/${LAST_CHARACTER}`;
  }
}

async function firstDirectory(shared: Shared, prefix: string, options: ListOptions): Promise<string | null> {
  for await (const { objects } of listPages(shared, prefix, options)) {
    for (const { key } of objects) {
      const end = key.indexOf('/', prefix.length);
      if (end > prefix.length) return key.slice(prefix.length, end);
    }
  }
  return null;
}

interface Pages<Page> {
  /** Begins after the last page that was returned. */
  readonly begin: (signal: AbortSignal) => AsyncIterable<Page>;
  /** Whether a page brings what no page before it has brought. */
  readonly isNews: (page: Page) => boolean;
}

/** Reads pages one at a time. A listing that breaks is begun again. */
class Listing<Page> {
  readonly #shared: Shared;
  readonly #prefix: string;
  readonly #options: CallOptions;
  readonly #of: Pages<Page>;
  #pages: AsyncIterator<Page> | undefined;
  #stop = new AbortController();

  constructor(shared: Shared, prefix: string, options: CallOptions, of: Pages<Page>) {
    this.#shared = shared;
    this.#prefix = prefix;
    this.#options = options;
    this.#of = of;
  }

  next(): Promise<Page | undefined> {
    return send(this.#shared, `list ${this.#prefix}`, this.#options, (signal) => this.#nextPage(signal));
  }

  /**
   * The reader has stopped, or a page failed. Does not wait for the listing, because a page may
   * hang.
   */
  close(): void {
    this.#stop.abort();
    // An error is ignored, because nothing more is read from the listing.
    Promise.resolve(this.#pages?.return?.()).catch(() => undefined);
    this.#pages = undefined;
  }

  async #nextPage(signal: AbortSignal): Promise<Page | undefined> {
    if (!this.#pages) {
      this.#stop = new AbortController();
      this.#pages = this.#of.begin(this.#stop.signal)[Symbol.asyncIterator]();
    }
    const listing = this.#stop;
    const watch = requestWatchOf(signal);
    if (watch) watchRequests(listing.signal, watch); // the watch is for this page only
    const stop = () => listing.abort(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
    try {
      return await this.#readNews(this.#pages);
    } catch (error) {
      this.close();
      throw error;
    } finally {
      signal.removeEventListener('abort', stop);
    }
  }
  async #readNews(pages: AsyncIterator<Page>): Promise<Page | undefined> {
    let last: Page | undefined;
    for (let count = 0; count < EMPTY_PAGES_MAX; count += 1) {
      const { done, value } = await pages.next();
      if (done) return last;
      if (this.#of.isNews(value)) return value;
      last = value;
    }
    throw tooManyListed(this.#shared.store, this.#prefix, `${EMPTY_PAGES_MAX} empty pages in a row`);
  }
}
