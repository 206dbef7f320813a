/**
 * Cuts connections after every byte of a request and of a reply. The reported outcome must match
 * the store.
 */

import { createCheckpointManager } from '@holdfast/core';
import { openStore } from '@holdfast/stores';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { largeFilesOf } from '../crash/large-files.ts';
import { CLOUDS } from '../servers/clouds.ts';
import {
  type CutPoint,
  type CuttingProxy,
  type Exchange,
  startCuttingProxy,
} from '../servers/cutting-proxy.ts';
import type { BucketView, TestBucket } from '../servers/test-bucket.ts';
import { LONG_COUNT, share } from './config.ts';
import { type CatalogCut, CutRun, type Places, runUri } from './cut-run.ts';
import { playUpload } from './cut-upload.ts';
import { BODY_START_BYTES, isCall } from './requests.ts';

/** Number of runs that are written at the same time. */
const LANES = 4;
/** Each save makes the entries of the catalog longer. */
const SAVES_OF_RUN = 8;
const IS_LONG = LONG_COUNT > 0;
const PART_BYTES = 5 * 1024 * 1024;
const LARGE_BYTES = PART_BYTES + 70_000;
/**
 * Replies vary in length, because times and sizes in them have more or fewer digits. The last bytes
 * of a reply come after those that decide the outcome.
 */
const REPLY_BYTES_VARY = 16;
const TIMEOUT_MS = IS_LONG ? 6 * 3600_000 : 600_000;

/** Step sizes in bytes. */
interface Steps {
  readonly head: number;
  readonly body: number;
  readonly reply: number;
}

const EVERY_BYTE: Steps = { head: 1, body: 1, reply: 1 };
/** test/direct-http cuts the client's exchanges at every byte: a short run takes larger steps. */
const CATALOG_STEPS: Steps = { head: 9, body: 61, reply: 9 };
const UPLOAD_STEPS: Steps = { head: 11, body: 37, reply: 11 };

/**
 * The cut points of a request like this one. A request that is sent completely is covered by the
 * cut of its reply at 0.
 */
function* cutPoints(exchange: Exchange, inShort: Steps): Generator<CutPoint> {
  const { requestBytes, replyBytes, headers } = exchange;
  const headBytes = requestBytes - Number(headers['content-length'] ?? 0);
  const { head, body, reply } = IS_LONG ? EVERY_BYTE : inShort;
  for (let bytes = 0; bytes < requestBytes; bytes += bytes < headBytes ? head : body)
    yield { request: bytes };
  for (let bytes = 0; bytes <= replyBytes - REPLY_BYTES_VARY; bytes += reply) yield { reply: bytes };
}

for (const cloud of CLOUDS) {
  cloud.describeOnOwn(`lost requests and replies on ${cloud.title}`, (server) => {
    /** One proxy for each run at the same time. */
    let proxies: CuttingProxy[];
    let bucket: TestBucket;
    let view: BucketView;
    beforeAll(async () => {
      const bodyStartBytes = BODY_START_BYTES[cloud.suite];
      bucket = await server().newBucket();
      const start = () => startCuttingProxy(bucket.endpoint ?? '', { bodyStartBytes });
      proxies = await Promise.all(Array.from({ length: LANES }, start));
      view = await cloud.openBucket(bucket);
    });
    afterAll(async () => {
      view.close();
      await Promise.all(proxies.map((proxy) => proxy.stop()));
    });

    const open = (name: string, endpoint: string) => openStore(runUri(bucket, name, endpoint), bucket.env);
    const placesAt = (proxy: CuttingProxy): Places => ({ cloud, bucket, proxy, view });
    const firstProxy = () => proxies[0] as CuttingProxy;

    /** Each lane takes the next cut until none is left. */
    async function playAll<Cut>(
      cuts: readonly Cut[],
      lane: (proxy: CuttingProxy, next: () => [number, Cut] | undefined) => Promise<void>,
    ) {
      const rest = cuts.entries();
      await Promise.all(proxies.map((proxy) => lane(proxy, () => rest.next().value)));
    }

    async function catalogWrite(): Promise<Exchange> {
      const proxy = firstProxy();
      const run = await CutRun.open(placesAt(proxy), 'unharmed', { reply: 0 });
      await run.close();
      const write = proxy.exchanges.findLast((exchange) => isCall(cloud, 'catalog write', exchange));
      if (!write) throw new Error('a save has not written to the catalog');
      return write;
    }

    test(
      'I4, I7: a catalog write that is cut anywhere: what was said is what is there, and recover tells the rest',
      async () => {
        const points = [...cutPoints(await catalogWrite(), CATALOG_STEPS)];
        // The outcome differs if no request passes after the cut. In a short run each point has one
        // of the two cases.
        const all = points.flatMap((after, index): CatalogCut[] => {
          const both = [
            { after, isLast: false },
            { after, isLast: true },
          ];
          return IS_LONG ? both : both.slice(index % 2, (index % 2) + 1);
        });
        expect(all.length).toBeGreaterThan(75);
        const cuts = share(cloud, all);
        await playAll(cuts, async (proxy, next) => {
          let run: CutRun | undefined;
          for (let count = 0, item = next(); item; count++, item = next()) {
            const [index, cut] = item;
            if (!run || count % SAVES_OF_RUN === 0) {
              await run?.close();
              const takeoverCut = points[(index * 5) % points.length] as CutPoint;
              run = await CutRun.open(placesAt(proxy), `run-${index}`, takeoverCut);
            }
            await saying(cut, run.save(cut));
          }
          await run?.close();
        });
      },
      TIMEOUT_MS,
    );

    test.each(['part', 'completion'] as const)(
      'I7, I9: a %s that is cut anywhere: the object is right, or there is an error and none',
      async (request) => {
        const observer = await open(request, bucket.endpoint ?? '');
        const play = async (proxy: CuttingProxy, key: string, after?: CutPoint) => {
          const store = await open(request, proxy.endpoint);
          try {
            return await saying(
              after,
              playUpload({ cloud, proxy, store, observer }, key, { request, after }),
            );
          } finally {
            await store.close();
          }
        };
        const unharmed = await play(firstProxy(), 'unharmed');
        const all = [...cutPoints(unharmed, UPLOAD_STEPS)];
        expect(all.length).toBeGreaterThan(40);
        await playAll(share(cloud, all), async (proxy, next) => {
          for (let item = next(); item; item = next()) await play(proxy, `upload-${item[0]}`, item[1]);
        });
        await observer.close();
      },
      TIMEOUT_MS,
    );

    test.each(['part', 'completion'] as const)(
      'I7, I9: a save in parts of which a %s is cut says the truth, and what it has committed is right',
      async (request) => {
        const files = largeFilesOf('job', 1n, 0, LARGE_BYTES);
        const settings = { bufferBytes: 4 * PART_BYTES, partSizeBytesMin: PART_BYTES };
        const points = [0, 100, PART_BYTES / 2].flatMap((bytes): CutPoint[] => [
          { request: bytes },
          { reply: bytes },
        ]);
        const proxy = firstProxy();
        let cutCount = 0;
        for (const [index, after] of points.entries()) {
          const manager = async (endpoint: string) =>
            createCheckpointManager({ store: await open(`save-${request}-${index}`, endpoint), settings });
          await using writer = await manager(proxy.endpoint);
          const cut = proxy.cut({ when: (exchange) => isCall(cloud, request, exchange), after });
          await saying(after, writer.save({ version: 1n, buffers: files }));
          cut.cancel();
          cutCount += cut.exchange ? 1 : 0;

          await using reader = await manager(bucket.endpoint ?? '');
          const to = Object.fromEntries(
            Object.entries(files).map(([file, { byteLength }]) => [file, new Uint8Array(byteLength)]),
          );
          await reader.restore({ version: 1n, to });
          for (const [file, bytes] of Object.entries(files)) expect(Buffer.compare(to[file]!, bytes)).toBe(0);
        }
        // The others are too long for the cut.
        expect(cutCount).toBeGreaterThan(3);
      },
      TIMEOUT_MS,
    );
  });
}

async function saying<T>(cut: unknown, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    throw new Error(`${JSON.stringify(cut)}: ${String(cause)}`, { cause });
  }
}
