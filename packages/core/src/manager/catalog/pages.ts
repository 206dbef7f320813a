/** Reads pages of the catalog. */

import { atATime } from '../../contract/at-a-time.ts';
import { CheckpointError } from '../../contract/errors.ts';
import {
  bytesEqual,
  decodeRecord,
  idEquals,
  type PageRef,
  pageKey,
  sha256,
  toHex,
} from '../../format/index.ts';
import { type OpenPage, pageKeyOf, summaryOfPage } from '../../plan/pages.ts';
import { getOrNull, type RunParts, withDeadline } from '../records/index.ts';

/** Maximum number of cached checkpoints of pages: about 20 MB. */
const CHECKPOINTS_REMEMBERED_MAX = 32_768;

export class PageReader {
  readonly #run: RunParts;
  /** By key, in order of last use. A page never changes. */
  readonly #remembered = new Map<string, OpenPage>();

  constructor(run: RunParts) {
    this.#run = run;
  }

  /**
   * The pages, in the order of `refs`. `null`: the page is missing, so the entry that refers to it
   * is damaged or not the newest. `Corrupt`: a page does not match its entry. Cost: one GET for
   * each page that is not cached.
   */
  async read(
    refs: readonly PageRef[],
    runId: string,
    signal: AbortSignal | undefined,
  ): Promise<(OpenPage | null)[]> {
    const { clock, settings, store } = this.#run;
    const bounds = {
      clock,
      timeoutMs: settings.recordTimeoutMs,
      what: 'reading pages of the catalog',
      signal,
    };
    const { preferredConcurrency } = store.capabilities;
    return withDeadline(bounds, (until) =>
      atATime(refs, preferredConcurrency, (ref) => this.#readOne(ref, runId, until)),
    );
  }

  async #readOne(ref: PageRef, runId: string, signal: AbortSignal): Promise<OpenPage | null> {
    const key = pageKeyOf(ref);
    const known = this.#remembered.get(key);
    if (known) return this.#remember(key, { ...known, ref });
    const bytes = await getOrNull(this.#run.records, key, signal);
    if (!bytes) return null;
    const problem = (what: string) =>
      new CheckpointError('Corrupt', `${key} is not what it should be: ${what}`, {
        context: { store: this.#run.store.uri, key },
      });
    const found = sha256(bytes);
    if (!bytesEqual(found, ref.sha256))
      throw problem(`its sha256 is ${toHex(found)}, not ${toHex(ref.sha256)}`);
    const page = decodeRecord('catalog-page', bytes, { key, store: this.#run.store.uri });
    if (page.seq !== ref.seq || pageKey(page.seq, found) !== key) throw problem(`it is of entry ${page.seq}`);
    if (page.runId !== runId) throw problem(`it is of run ${page.runId}, not ${runId}`);
    const { checkpoints } = page;
    if (!hasSummary(ref, checkpoints)) throw problem('the entry gives other counts or ids for it');
    return this.#remember(key, { ref, checkpoints });
  }

  #remember(key: string, page: OpenPage): OpenPage {
    this.#remembered.delete(key);
    this.#remembered.set(key, page);
    let count = 0;
    for (const [other, { checkpoints }] of [...this.#remembered].reverse()) {
      count += checkpoints.length;
      if (count > CHECKPOINTS_REMEMBERED_MAX) this.#remembered.delete(other);
    }
    return page;
  }
}

function hasSummary(ref: PageRef, checkpoints: OpenPage['checkpoints']): boolean {
  if (checkpoints.length === 0) return false;
  const found = summaryOfPage(checkpoints);
  if (!idEquals(ref.first, found.first) || !idEquals(ref.last, found.last)) return false;
  const names = ['count', 'liveCount', 'liveVerifiedCount', 'livePathCount', 'topOnPath'] as const;
  return names.every((name) => ref[name] === found[name]);
}
