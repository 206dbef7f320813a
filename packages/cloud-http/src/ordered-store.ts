/** A store over HTTP whose listings have the order of the keys' bytes. */

import type { CallOptions, ListOptions, ListPage } from '@holdfast/core/contract';
import { CloudStore, type CloudStoreParts } from './cloud-store.ts';
import {
  type BucketPage,
  type ListedBucket,
  listDirectoryNames,
  listInOrder,
  type PageRequest,
} from './listing.ts';

export interface OrderedStoreParts extends CloudStoreParts {
  /** Empty, or ends in '/'. */
  readonly root: string;
  /** See `ListedBucket`. Sent once; refusals are thrown as they are. */
  readonly page: (request: PageRequest, signal: AbortSignal | undefined) => Promise<BucketPage>;
}

export abstract class OrderedCloudStore extends CloudStore {
  readonly #listing: Pick<OrderedStoreParts, 'root' | 'page'>;

  constructor(parts: OrderedStoreParts) {
    super(parts);
    this.#listing = parts;
  }

  list(prefix: string, options: ListOptions = {}): AsyncGenerator<ListPage, void, void> {
    return listInOrder(this.#listed(options.signal), prefix, options);
  }

  listDirectories(
    prefix: string,
    { signal }: CallOptions = {},
  ): AsyncGenerator<readonly string[], void, void> {
    return listDirectoryNames(this.#listed(signal), prefix);
  }

  #listed(signal: AbortSignal | undefined): ListedBucket {
    const { root, page } = this.#listing;
    return {
      root,
      page: (request) => this.calls.run({ action: 'list', signal }, () => page(request, signal)),
    };
  }
}
