/**
 * A run whose writer saves through a proxy that cuts writes of the catalog. The test compares
 * reported outcomes with the store.
 */

import { createCheckpointManager, isCheckpointError, type RunManager } from '@holdfast/core';
import { openStore } from '@holdfast/stores';
import { FAULTS, FaultyStore } from '@holdfast/testkit';
import type { Cloud } from '../servers/clouds.ts';
import type { Cut, CutPoint, CuttingProxy, Exchange } from '../servers/cutting-proxy.ts';
import { type BucketView, partsOfBucket, type TestBucket } from '../servers/test-bucket.ts';
import { MovedClock } from './moved-clock.ts';
import { isCall } from './requests.ts';

const BYTES = new TextEncoder().encode('the bytes to save');
/** The minimum memory, because allocating more would take longer than a save. */
const SETTINGS = { bufferBytes: 16 * 1024 * 1024, retryDelayMsBase: 1, retryDelayMsMax: 4 };

export interface Places {
  readonly cloud: Cloud;
  readonly bucket: TestBucket;
  /** Only one run may use it at a time. */
  readonly proxy: CuttingProxy;
  /** Reads the store directly, so it shows the true state. */
  readonly view: BucketView;
}

export interface CatalogCut {
  readonly after: CutPoint;
  /** No request passes after the cut, so the outcome of the write cannot be determined. */
  readonly isLast: boolean;
}

/** The reported outcome of `save`. */
interface Said {
  /** `committed`, or the code of the error. */
  readonly outcome: string;
  readonly token: string | undefined;
}

/** Longer than any deadline. */
const AHEAD_MS = 3600_000;

/** The URI of the run of this name in the bucket, for a client that connects to `endpoint`. */
export function runUri(bucket: TestBucket, name: string, endpoint: string): string {
  const { root, query } = partsOfBucket(bucket);
  query.set('endpoint', endpoint);
  return `${root}/${name}?${query}`;
}

export class CutRun {
  readonly #places: Places;
  readonly #name: string;
  readonly #clock = new MovedClock();
  readonly #store: FaultyStore;
  /** Connects through the proxy. */
  readonly #writer: RunManager;
  readonly #observer: RunManager;
  #version = -1n;
  #entries = 1;
  /** No request passes after this cut. */
  #lastCut: Cut | undefined;

  private constructor(places: Places, name: string, stores: { proxied: FaultyStore; direct: FaultyStore }) {
    this.#places = places;
    this.#name = name;
    this.#store = stores.proxied;
    // Every version has the same bytes. A lease would protect a reference to them and would be
    // deleted at the end.
    const options = { settings: SETTINGS, attempt: 'job', dedupe: 'off' as const };
    this.#writer = createCheckpointManager({ ...options, store: stores.proxied, clock: this.#clock });
    this.#observer = createCheckpointManager({ ...options, store: stores.direct });
  }

  /**
   * Opens a new run. If the takeover's write is long enough, it is cut too and the writer must
   * overcome that.
   */
  static async open(places: Places, name: string, takeoverCut: CutPoint): Promise<CutRun> {
    const { bucket, proxy } = places;
    const uriAt = (endpoint: string) => runUri(bucket, name, endpoint);
    const proxied = await openStore(uriAt(proxy.endpoint), bucket.env);
    const direct = new FaultyStore(await openStore(uriAt(bucket.endpoint ?? ''), bucket.env));
    const run: CutRun = new CutRun(places, name, {
      proxied: new FaultyStore(proxied, () => run.#faultNow()),
      direct,
    });
    const cut = run.#cut(takeoverCut);
    const said = await run.#save();
    cut.cancel();
    await run.#judge(said, false);
    return run;
  }

  /**
   * Saves the next version. Throws if the reported outcome is wrong. Resolves to the request that
   * the proxy cut.
   */
  async save({ after, isLast }: CatalogCut): Promise<Exchange> {
    const cut = this.#cut(after);
    if (isLast) this.#lastCut = cut;
    const said = await this.#save();
    this.#lastCut = undefined;
    cut.cancel();
    if (!cut.exchange) throw new Error('nothing was cut');
    await this.#judge(said, isLast);
    return cut.exchange;
  }

  async close(): Promise<void> {
    await this.#writer.close();
    await this.#observer.close();
    if (this.#store.calls.some(({ operation }) => operation === 'deleteMany'))
      throw new Error('I7: something was deleted');
  }

  #faultNow() {
    if (!this.#lastCut?.exchange) return undefined;
    this.#clock.skip(AHEAD_MS);
    return FAULTS.loseRequest;
  }

  #cut(after: CutPoint): Cut {
    const { cloud, proxy } = this.#places;
    return proxy.cut({ when: (request) => isCall(cloud, 'catalog write', request), after });
  }

  async #save(): Promise<Said> {
    this.#version++;
    try {
      await this.#writer.save({ version: this.#version, buffers: { file: BYTES } });
      return { outcome: 'committed', token: undefined };
    } catch (error) {
      if (!isCheckpointError(error)) throw error;
      return { outcome: error.code, token: error.context.token };
    }
  }

  async #judge({ outcome, token }: Said, isLast: boolean): Promise<void> {
    const { entries, versions } = await this.#catalog();
    const isCommitted = versions.includes(`${this.#version}`);
    const expected = isLast ? 'OutcomeUnknown' : 'committed';
    if (outcome !== expected) throw new Error(`the save ended as ${outcome} instead of ${expected}`);
    if (outcome === 'committed' && !isCommitted)
      throw new Error('I7: it was told committed, and it is not there');
    if (isCommitted) this.#entries++;
    if (entries !== this.#entries)
      throw new Error(`I4: there are ${entries} entries where ${this.#entries} decisions were made`);
    if (!isLast) return;

    const recovered = await this.#observer.recover(token ?? '');
    const truth = isCommitted ? 'committed' : 'pending';
    if (recovered.outcome !== truth)
      throw new Error(`I7: recover says ${recovered.outcome}, and it is ${truth}`);
    if (isCommitted) return;
    // This commit needs every delivered object, so it shows that none was deleted.
    await this.#observer.commit({ version: this.#version });
    this.#entries++;
  }

  /** The number of entries, and the versions that the newest entry lists. */
  async #catalog(): Promise<{ entries: number; versions: string[] }> {
    const { view } = this.#places;
    const keys = await view.list(`${this.#name}/catalog/`);
    const newest = await view.read(keys.at(-1) ?? '');
    const { state } = JSON.parse(new TextDecoder().decode(newest));
    const checkpoints = (state.checkpoints ?? []) as { id: { version?: string } }[];
    return { entries: keys.length, versions: checkpoints.map(({ id }) => id.version ?? '0') };
  }
}
