/** Connections that end after every byte of a request, and of a reply: what is said of the outcome is what the store holds. */

import type { S3Client } from '@aws-sdk/client-s3';
import { openCheckpointManager } from '@holdfast/core';
import { openS3Store } from '@holdfast/store-s3';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { largeFilesOf } from '../crash/large-files.ts';
import {
  type CutPoint,
  type CuttingProxy,
  type Exchange,
  startCuttingProxy,
} from '../servers/cutting-proxy.ts';
import { describeOnMinio } from '../servers/describe-on-s3.ts';
import { s3Client } from '../servers/s3-access.ts';
import { LONG_COUNT } from './config.ts';
import { type CatalogCut, CutRun, type Places, runUri } from './cut-run.ts';
import { playUpload } from './cut-upload.ts';

/** Runs that are written to at the same time. */
const LANES = 4;
/** Each makes the entries of the catalog longer. */
const SAVES_OF_RUN = 8;
const IS_LONG = LONG_COUNT > 0;
const PART_BYTES = 5 * 1024 * 1024;
const LARGE_BYTES = PART_BYTES + 70_000;
const TIMEOUT_MS = IS_LONG ? 6 * 3600_000 : 600_000;

/** In bytes. */
interface Steps {
  readonly head: number;
  readonly body: number;
  readonly reply: number;
}

const EVERY_BYTE: Steps = { head: 1, body: 1, reply: 1 };

/** Of a request like this one. One that is sent whole is cut as its reply is, at 0. */
function* cutPoints(exchange: Exchange, inShort: Steps): Generator<CutPoint> {
  const { requestBytes, replyBytes, headers } = exchange;
  const headBytes = requestBytes - Number(headers['content-length'] ?? 0);
  const { head, body, reply } = IS_LONG ? EVERY_BYTE : inShort;
  for (let bytes = 0; bytes < requestBytes; bytes += bytes < headBytes ? head : body)
    yield { request: bytes };
  for (let bytes = 0; bytes <= replyBytes; bytes += reply) yield { reply: bytes };
}

/** Each lane takes the next, until there is none. */
async function playAll<Cut>(
  cuts: readonly Cut[],
  lane: (next: () => [number, Cut] | undefined) => Promise<void>,
) {
  const rest = cuts.entries();
  const next = () => rest.next().value;
  await Promise.all(Array.from({ length: LANES }, () => lane(next)));
}

describeOnMinio('lost requests and replies', {}, (server) => {
  let proxy: CuttingProxy;
  let client: S3Client;
  let places: Places;
  beforeAll(async () => {
    proxy = await startCuttingProxy(server().endpoint);
    client = await s3Client(server());
    places = { bucket: await server().newBucket(), proxy, client };
  });
  afterAll(async () => {
    client.destroy();
    await proxy.stop();
  });

  async function catalogWrite(): Promise<Exchange> {
    const run = await CutRun.open(places, 'unharmed', { reply: 0 });
    await run.close();
    const write = proxy.exchanges.findLast(({ method }) => method === 'PUT');
    if (!write?.path.includes('/catalog/')) throw new Error('the last write of a save is not its commit');
    return write;
  }

  test(
    'I4, I7: a catalog write that is cut anywhere: what was said is what is there, and recover tells the rest',
    async () => {
      const points = [...cutPoints(await catalogWrite(), { head: 1, body: 7, reply: 1 })];
      // Where nothing goes through afterwards, the outcome is another; in a short run each point has one of the two.
      const cuts = points.flatMap((after, index): CatalogCut[] => {
        const both = [
          { after, isLast: false },
          { after, isLast: true },
        ];
        return IS_LONG ? both : both.slice(index % 2, (index % 2) + 1);
      });
      expect(cuts.length).toBeGreaterThan(1000);
      await playAll(cuts, async (next) => {
        let run: CutRun | undefined;
        for (let count = 0, item = next(); item; count++, item = next()) {
          const [index, cut] = item;
          if (!run || count % SAVES_OF_RUN === 0) {
            await run?.close();
            run = await CutRun.open(places, `run-${index}`, points[(index * 5) % points.length] as CutPoint);
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
      const { bucket } = places;
      const store = await openS3Store(runUri(bucket, request, proxy.endpoint), bucket.env);
      const observer = await openS3Store(runUri(bucket, request, server().endpoint), bucket.env);
      const play = (key: string, after?: CutPoint) =>
        saying(after, playUpload({ proxy, store, observer }, key, { request, after }));
      const unharmed = await play('unharmed');
      const points = [...cutPoints(unharmed, { head: 3, body: 7, reply: 3 })];
      expect(points.length).toBeGreaterThan(300);
      await playAll(points, async (next) => {
        for (let item = next(); item; item = next()) await play(`upload-${item[0]}`, item[1]);
      });
      await store.close();
      await observer.close();
    },
    TIMEOUT_MS,
  );

  test.each(['PUT', 'POST'])(
    'I7, I9: a save in parts of which a %s is cut says the truth, and what it has committed is right',
    async (method) => {
      const { bucket } = places;
      const files = largeFilesOf('job', 1n, 0, LARGE_BYTES);
      const settings = { bufferBytes: 4 * PART_BYTES, partSizeBytesMin: PART_BYTES };
      const points = [0, 400, PART_BYTES / 2].flatMap((bytes): CutPoint[] => [
        { request: bytes },
        { reply: bytes },
      ]);
      let cutCount = 0;
      for (const [index, after] of points.entries()) {
        const name = `${method}-${index}`;
        const open = async (endpoint: string) =>
          openCheckpointManager({
            store: await openS3Store(runUri(bucket, name, endpoint), bucket.env),
            settings,
          });
        await using writer = await open(proxy.endpoint);
        const isPart = (path: string) =>
          path.startsWith(`/${bucket.bucket}/${name}/`) && path.includes('uploadId=');
        const cut = proxy.cut({ when: (head) => head.method === method && isPart(head.path), after });
        await saying(after, writer.save({ version: 1n, buffers: files }));
        cut.cancel();
        cutCount += cut.exchange ? 1 : 0;

        await using reader = await open(server().endpoint);
        const to = Object.fromEntries(
          Object.entries(files).map(([file, { byteLength }]) => [file, new Uint8Array(byteLength)]),
        );
        await reader.restore({ version: 1n, to });
        for (const [file, bytes] of Object.entries(files)) expect(Buffer.compare(to[file]!, bytes)).toBe(0);
      }
      // The others are longer than what is to be cut.
      expect(cutCount).toBeGreaterThan(3);
    },
    TIMEOUT_MS,
  );
});

async function saying<T>(cut: unknown, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    throw new Error(`${JSON.stringify(cut)}: ${String(cause)}`, { cause });
  }
}
