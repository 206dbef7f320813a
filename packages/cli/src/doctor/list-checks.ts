/**
 * Checks that listings show every object that was created, in order, and only those of the prefix.
 */

import { formatPlural } from '../format.ts';
import { expectThat } from './broken-promise.ts';
import type { Check, Outcome } from './check.ts';
import type { Client } from './client.ts';
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
    meaning: 'commits could be overlooked: a restart would load an old checkpoint, and two writers disagree',
    advice: 'use a store whose listings are strongly consistent and in the order of keys',
    run: listing,
  },
];

async function listing(probe: Probe): Promise<Outcome> {
  const [writer, reader] = [await probe.client(0), await probe.client(1)];
  await listAfterWrite(probe, writer, reader);
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

async function listAfterWrite(probe: Probe, writer: Client, reader: Client): Promise<void> {
  for (let round = 1; round <= ROUNDS; round += 1) {
    const key = probe.key(`fresh/${String(round).padStart(2, '0')}`);
    await writer.create(key, probe.bytes(8));
    const keys = await reader.keys(probe.key('fresh/'));
    expectThat(keys.includes(key), `object ${round} of ${ROUNDS} was not listed right after its create`);
    expectThat(keys.length === round, `${round} objects are listed as ${keys.length}`);
  }
}

async function expectListing(
  probe: Probe,
  reader: Client,
  prefix: string,
  names: readonly string[],
): Promise<void> {
  const found = await reader.keys(probe.key(prefix));
  const expected = names.map((name) => probe.key(prefix + name));
  if (found.join('\n') === expected.join('\n')) return;
  const sorted = [...found].sort().join('\n') === [...expected].sort().join('\n');
  const missing = expected.filter((key) => !found.includes(key)).length;
  const foreign = found.filter((key) => !expected.includes(key)).length;
  const fault = sorted
    ? 'keys are not in the order of their UTF-8 bytes'
    : `of ${expected.length} objects a listing lacks ${missing}, and it shows ${foreign} that do not belong there`;
  expectThat(false, fault);
}
