/**
 * A process is stopped in the middle of its save, as under a debugger or on a swapping machine.
 * Meanwhile another process takes over the run.
 */

import { afterAll, beforeAll, expect, test } from 'vitest';
import { checkInvariants, type Told } from '../crash/invariants.ts';
import { largeFilesOf } from '../crash/large-files.ts';
import { Writer } from '../crash/writer.ts';
import type { Halt, SaveOrder } from '../crash/writer-messages.ts';
import { CLOUDS } from '../servers/clouds.ts';
import { viewOfRun } from './run-view.ts';

const PART_BYTES = 5 * 1024 * 1024;
const LARGE_BYTES = PART_BYTES + 70_000;

const POINTS: readonly [string, Pick<Halt, 'at'> & { moment: 'before' | 'meanwhile' }][] = [
  ['while a part is on its way', { moment: 'meanwhile', at: { operation: 'putPart', key: /large$/ } }],
  ['before it completes an upload', { moment: 'before', at: { operation: 'complete', key: /large$/ } }],
  ['before its receipt', { moment: 'before', at: { operation: 'create', key: /\/receipts\// } }],
  // The first entry is its takeover.
  ['before its commit', { moment: 'before', at: { operation: 'create', key: /^catalog\//, skip: 1 } }],
];

for (const cloud of CLOUDS) {
  cloud.describeOn(`a writer that stands still on ${cloud.title}`, (server) => {
    // Every save of these writers has its own manager, so the next test can use them again.
    let old: Writer;
    let next: Writer;
    beforeAll(async () => {
      const { env } = await server().newBucket();
      old = new Writer(env);
      next = new Writer(env);
    });
    afterAll(() => Promise.all([old.end(), next.end()]));

    test.each(POINTS)(
      'I5: %s, is fenced by a takeover, and nothing of it is seen',
      async (_, point) => {
        const run = await server().newBucket();
        const order = (attempt: string, version: bigint): SaveOrder => ({
          ...{ uri: run.uri, index: 0, count: 1, largeBytes: LARGE_BYTES, partSizeBytes: PART_BYTES },
          ...{ attempt, version },
        });
        const overtaken = old.save({ ...order('old', 1n), halt: { signal: 'SIGSTOP', ...point } });
        await old.stopped();
        const taken = await next.save(order('next', 1n)).told;
        expect(taken).toMatchObject({ outcome: 'committed' });

        old.goOn();
        const answer = await overtaken.told;
        expect(answer).toMatchObject({ outcome: 'Fenced' });
        const told: Told[] = [
          { attempt: 'old', writer: 0, version: 1n, outcome: 'Fenced' },
          { attempt: 'next', writer: 0, version: 1n, outcome: 'committed' },
        ];
        const view = await viewOfRun(cloud, run);
        await checkInvariants(view, told, (attempt, version, writer) =>
          largeFilesOf(attempt, version, writer, LARGE_BYTES),
        );
        const kinds = view
          .keys()
          .filter((key) => key.startsWith('catalog/'))
          .map((key) => JSON.parse(Buffer.from(view.read(key) ?? []).toString()).transaction)
          .map(({ kind, epoch }) => `${kind} in epoch ${epoch}`);
        expect(kinds).toEqual(['takeover in epoch 1', 'takeover in epoch 2', 'commit in epoch 2']);

        // The fence is permanent: the next save of the fenced process is rejected too.
        expect(await old.save(order('old', 2n)).told).toMatchObject({ outcome: 'Fenced' });
      },
      120_000,
    );
  });
}
