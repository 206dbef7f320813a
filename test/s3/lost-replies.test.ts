/** Connections that end after every byte of a request, and of a reply: what is said of the outcome is what the store holds. */

import type { S3Client } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type CutPoint, type CuttingProxy, startCuttingProxy } from '../servers/cutting-proxy.ts';
import { describeOnMinio } from '../servers/describe-on-s3.ts';
import { s3Client } from '../servers/s3-access.ts';
import { LONG_COUNT } from './config.ts';
import { type CatalogCut, CutRun, type Places } from './cut-run.ts';

/** Runs that are written to at the same time. */
const LANES = 4;
/** Each makes the entries of the catalog longer. */
const SAVES_OF_RUN = 8;
const IS_LONG = LONG_COUNT > 0;

interface Lengths {
  readonly headBytes: number;
  /** Head and body. */
  readonly requestBytes: number;
  readonly replyBytes: number;
}

/** Every byte of request and reply; in a short run of the body every seventh. A request that is sent whole is cut as its reply is, at 0. */
function* cutPoints({ headBytes, requestBytes, replyBytes }: Lengths): Generator<CutPoint> {
  for (let bytes = 0; bytes < requestBytes; bytes += IS_LONG || bytes < headBytes ? 1 : 7)
    yield { request: bytes };
  for (let bytes = 0; bytes <= replyBytes; bytes++) yield { reply: bytes };
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

  async function lengthsOfCatalogWrite(): Promise<Lengths> {
    const run = await CutRun.open(places, 'lengths', { reply: 0 });
    await run.close();
    const write = proxy.exchanges.findLast(({ method }) => method === 'PUT');
    if (!write?.path.includes('/catalog/')) throw new Error('the last write of a save is not its commit');
    const { requestBytes, replyBytes, headers } = write;
    return { headBytes: requestBytes - Number(headers['content-length']), requestBytes, replyBytes };
  }

  test('I4, I7: a catalog write that is cut at every byte: what was said is what is there, and recover tells the rest', async () => {
    const lengths = await lengthsOfCatalogWrite();
    const points = [...cutPoints(lengths)];
    // Where nothing goes through afterwards, the outcome is another; in a short run each point has one of the two.
    const cuts = points.flatMap((after, index): CatalogCut[] =>
      IS_LONG
        ? [
            { after, isLast: false },
            { after, isLast: true },
          ]
        : [{ after, isLast: index % 2 === 1 }],
    );
    const rest = cuts.entries();
    const lane = async (): Promise<number> => {
      let count = 0;
      let run: CutRun | undefined;
      for (const [index, cut] of rest) {
        if (count % SAVES_OF_RUN === 0) {
          await run?.close();
          const takeoverCut = points[(index * 5) % points.length] as CutPoint;
          run = await CutRun.open(places, `run-${index}`, takeoverCut);
        }
        await run?.save(cut).catch((cause: unknown) => {
          throw new Error(`${JSON.stringify(cut)}: ${String(cause)}`, { cause });
        });
        count++;
      }
      await run?.close();
      return count;
    };
    const counts = await Promise.all(Array.from({ length: LANES }, lane));
    expect(counts.reduce((sum, count) => sum + count)).toBe(cuts.length);
    expect(cuts.length).toBeGreaterThan(1000);
  }, 1_200_000);
});
