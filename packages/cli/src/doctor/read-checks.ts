/** Checks that every client sees a created object, and that any part of it can be read. */

import { formatPlural } from '../format.ts';
import { expectThat } from './broken-promise.ts';
import type { Check, Outcome } from './check.ts';
import type { Probe } from './probe.ts';
import { expectRead } from './read-back.ts';

const READ_ROUNDS = 20;
const OBJECT_BYTES = 100_000;

export const readChecks: readonly Check[] = [
  {
    id: 'read-after-write',
    title: 'read after write',
    needs: ['may-create', 'may-read'],
    meaning: 'a checkpoint that was committed could be missing when a restart looks for it',
    advice: 'use a store with strong consistency, and no cache between it and its clients',
    run: readAfterWrite,
  },
  {
    id: 'ranges',
    title: 'ranges',
    needs: ['may-create', 'may-read'],
    meaning: 'large files cannot be restored',
    advice: 'use another store, or leave out the proxy between: it must serve ranges of an object exactly',
    run: ranges,
  },
];

async function readAfterWrite(probe: Probe): Promise<Outcome> {
  const [writer, reader] = [await probe.client(0), await probe.client(1)];
  for (let round = 1; round <= READ_ROUNDS; round += 1) {
    const key = probe.key(`object-${round}`);
    const bytes = probe.bytes(64);
    // Read before the create, so that a cached "not found" would fail the check.
    expectThat((await reader.find(key)) === null, 'a key never used before is found');
    await writer.create(key, bytes);
    const read = async () => {
      const found = await reader.find(key);
      expectThat(found !== null, `object ${round} of ${READ_ROUNDS} was not there right after its create`);
      return found.bytes;
    };
    await expectRead(read, { bytes, what: 'an object just created' });
    const { sizeBytes } = await reader.head(key);
    expectThat(sizeBytes === 64, `an object of 64 bytes is said to have ${sizeBytes}`);
  }
  return { seen: `${formatPlural(READ_ROUNDS, 'object')}, each seen by another client at once` };
}

async function ranges(probe: Probe): Promise<Outcome> {
  const client = await probe.client();
  const key = probe.key('object');
  const bytes = probe.bytes(Math.min(OBJECT_BYTES, client.capabilities.maxCreateBytes));
  await client.create(key, bytes);
  const end = bytes.byteLength;
  const middle = Math.floor(end / 2);
  const wanted: [what: string, offset: number, length: number][] = [
    ['the whole object', 0, end],
    ['a range in the middle', Math.floor(end / 3), Math.min(1000, middle)],
    ['the last byte', end - 1, 1],
    ['a range across the end', middle, end],
    ['a range from the end on', end, 10],
    ['a range past the end', end + 1000, 10],
  ];
  for (const [what, offset, length] of wanted) {
    const expected = bytes.subarray(offset, offset + length);
    await expectRead(() => client.range(key, offset, length), { bytes: expected, what });
  }
  return { seen: 'in the middle, across the end, past the end' };
}
