/** Lists names that must not be missed, although an answer may be changed on its way. */

import { CheckpointError } from '../../contract/errors.ts';
import { compareUtf8 } from '../../contract/object-key.ts';
import type { ListOptions, ObjectInfo } from '../../contract/object-store.ts';
import type { RunParts } from '../records/index.ts';

/** Listings in a row whose doubtful names differ. */
const LOOKS_MAX = 5;

export interface KnownNames<T> {
  readonly found: readonly { readonly object: ObjectInfo; readonly parsed: T }[];
  /** By the store's clock, at the first page; 0: the store showed no page. */
  readonly storeTimeMs: number;
}

/**
 * Lists the objects below one prefix whose keys `parse` accepts. Any other name is doubtful: it is
 * foreign, or it is the name of an object and was changed on its way. A name out of order is
 * doubtful too, because it may have been changed into that of another object. A listing counts if
 * the listing before it had the same doubtful names: then they are foreign.
 */
export class DoubtfulNames<T> {
  readonly #run: RunParts;
  readonly #prefix: string;
  readonly #parse: (key: string) => T | null;
  /** The doubtful names of the last listing. */
  #doubtful: ReadonlySet<string> = new Set();

  constructor(run: RunParts, prefix: string, parse: (key: string) => T | null) {
    this.#run = run;
    this.#prefix = prefix;
    this.#parse = parse;
  }

  /**
   * One list page per 1,000 names, and the same once more if there is a doubtful name that the last
   * listing did not have. `Unavailable`: such names differ each time.
   */
  async list(options: ListOptions): Promise<KnownNames<T>> {
    for (let look = 1; ; look++) {
      const { doubtful, ...listing } = await this.#listOnce(options);
      const isNew = [...doubtful].some((name) => !this.#doubtful.has(name));
      this.#doubtful = doubtful;
      if (!isNew) return listing;
      const names = [...doubtful].slice(0, 3).map((name) => JSON.stringify(name));
      const what = `the listing of ${this.#prefix} has names that do not belong there: ${names.join(', ')}`;
      if (look === LOOKS_MAX) {
        const message = `${what}; they differ each time, so answers are changed in transit from the store`;
        throw new CheckpointError('Unavailable', message, { context: { store: this.#run.store.uri } });
      }
      this.#run.logger.log('warn', `${what}; it is listed again`);
    }
  }

  async #listOnce(options: ListOptions): Promise<KnownNames<T> & { doubtful: Set<string> }> {
    const found: { object: ObjectInfo; parsed: T }[] = [];
    const doubtful = new Set<string>();
    let storeTimeMs = 0;
    let last = '';
    for await (const page of this.#run.records.list(this.#prefix, options)) {
      storeTimeMs ||= page.storeTimeMs;
      for (const object of page.objects) {
        const parsed = this.#parse(object.key);
        if (parsed === null || compareUtf8(last, object.key) >= 0) doubtful.add(object.key);
        if (parsed !== null) found.push({ object, parsed });
        last = object.key;
      }
    }
    return { found, storeTimeMs, doubtful };
  }
}
