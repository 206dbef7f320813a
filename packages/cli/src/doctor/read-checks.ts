/** Checks that every client sees a created object, and that any part of it can be read. */

import { tryToReadAfterWrite, tryToReadRanges, type WantedRange } from '@holdfast/testkit';
import { formatPlural } from '../format.ts';
import type { Check, Outcome } from './check.ts';
import type { Probe } from './probe.ts';

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
    advice:
      'use another store, or remove the proxy in front of it: it must serve ranges of an object exactly',
    run: ranges,
  },
];

async function readAfterWrite(probe: Probe): Promise<Outcome> {
  await tryToReadAfterWrite(probe, READ_ROUNDS);
  return { seen: `${formatPlural(READ_ROUNDS, 'object')}, each seen by another client at once` };
}

async function ranges(probe: Probe): Promise<Outcome> {
  await tryToReadRanges(probe, OBJECT_BYTES, rangesOf);
  return { seen: 'in the middle, across the end, past the end' };
}

function rangesOf(end: number): WantedRange[] {
  const middle = Math.floor(end / 2);
  return [
    { what: 'the whole object', offsetBytes: 0, lengthBytes: end },
    {
      what: 'a range in the middle',
      offsetBytes: Math.floor(end / 3),
      lengthBytes: Math.min(1000, middle),
    },
    { what: 'the last byte', offsetBytes: end - 1, lengthBytes: 1 },
    { what: 'a range across the end', offsetBytes: middle, lengthBytes: end },
    { what: 'a range from the end on', offsetBytes: end, lengthBytes: 10 },
    { what: 'a range past the end', offsetBytes: end + 1000, lengthBytes: 10 },
  ];
}
