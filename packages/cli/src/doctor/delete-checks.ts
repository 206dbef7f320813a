/** Checks that deletes remove the given objects, and no others. */

import { formatPlural } from '../format.ts';
import { expectThat } from './broken-promise.ts';
import type { Check, Outcome } from './check.ts';
import type { Probe } from './probe.ts';

const NAMES = ['a', 'b', 'dir/c'];
const LIST_ROUNDS = 5;

export const deleteChecks: readonly Check[] = [
  {
    id: 'delete',
    title: 'delete',
    needs: ['may-create', 'may-read', 'may-delete'],
    meaning: 'old checkpoints could come back, or live ones vanish, when space is freed',
    advice: 'use a store whose deletes show at once and take exactly the keys they name',
    run: deleteSome,
  },
  {
    id: 'list-after-delete',
    title: 'list after delete',
    needs: ['may-list', 'delete'],
    meaning: 'what was removed would seem to be there, and be looked for in vain',
    advice: 'use a store whose listings are strongly consistent',
    run: listAfterDelete,
  },
];

async function deleteSome(probe: Probe): Promise<Outcome> {
  const [writer, reader] = [await probe.client(0), await probe.client(1)];
  for (const name of [...NAMES, 'a-stays', 'dir/c-stays'])
    await writer.create(probe.key(name), probe.bytes(8));
  const keys = NAMES.map((name) => probe.key(name));
  await writer.delete([...keys, probe.key('never-created')]);
  await writer.delete(keys); // Again: a missing object counts as deleted.
  for (const key of keys)
    expectThat((await reader.find(key)) === null, 'an object is still there after it was deleted');
  for (const name of ['a-stays', 'dir/c-stays'])
    expectThat((await reader.find(probe.key(name))) !== null, 'an object beside a deleted one vanished too');
  return { seen: `${formatPlural(NAMES.length, 'object')} gone, and one that was never there` };
}

async function listAfterDelete(probe: Probe): Promise<Outcome> {
  const [writer, reader] = [await probe.client(0), await probe.client(1)];
  for (let round = 1; round <= LIST_ROUNDS; round += 1) {
    const [gone, stays] = [probe.key(`${round}/gone`), probe.key(`${round}/stays`)];
    for (const key of [gone, stays]) await writer.create(key, probe.bytes(8));
    // List before the delete, so that a cached listing would fail the check.
    await reader.keys(probe.key(`${round}/`));
    await writer.delete([gone]);
    const keys = await reader.keys(probe.key(`${round}/`));
    expectThat(!keys.includes(gone), 'an object is still listed after it was deleted');
    expectThat(keys.includes(stays), 'an object beside a deleted one is no longer listed');
  }
  return { seen: `${formatPlural(LIST_ROUNDS, 'object')} no longer listed at once` };
}
