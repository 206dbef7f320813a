/**
 * Checks that listings show every object that was created, in order, and only those of the prefix.
 */

import { expectListing, expectThat, tryToListAfterWrite } from '@holdfast/testkit';
import { formatPlural } from '../format.ts';
import type { Check, Outcome } from './check.ts';
import type { Probe } from './probe.ts';

const ROUNDS = 10;

/**
 * In the order of their UTF-8 bytes. UTF-16 would swap the last two. The contents of a directory
 * sort between its neighbours.
 */
const ORDERED = ['a+b c', 'b', 'dir-1', 'dir/1', 'dir/2/3', 'dir0', 'ä', '\u{ff5e}', '\u{1f600}'];

export const listChecks: readonly Check[] = [
  {
    id: 'listing',
    title: 'list after write',
    needs: ['may-list', 'may-create'],
    meaning:
      'commits could be missed: a restart would load an old checkpoint, and two writers would disagree',
    advice: 'use a store whose listings are strongly consistent and in the order of keys',
    run: listing,
  },
];

async function listing(probe: Probe): Promise<Outcome> {
  await tryToListAfterWrite(probe, ROUNDS);
  const [writer, reader] = [await probe.client(0), await probe.client(1)];
  for (const name of ORDERED.toReversed()) await writer.create(probe.key(`order/${name}`), probe.bytes(8));
  await expectListing(probe, reader, 'order/', ORDERED);
  const after = await reader.keys(probe.key('order/'), probe.key('order/dir/1'));
  expectThat(
    after.length === ORDERED.length - 4 && after[0] === probe.key('order/dir/2/3'),
    'a listing that begins after a key does not begin with the next one',
  );
  await writer.create(probe.key('version_1/object'), probe.bytes(8));
  await writer.create(probe.key('version_10/object'), probe.bytes(8));
  await expectListing(probe, reader, 'version_1/', ['object']);
  return { seen: `${formatPlural(ROUNDS, 'object')} at once; order and prefixes are right` };
}
