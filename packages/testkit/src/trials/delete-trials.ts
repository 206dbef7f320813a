/** Deletes remove the given objects, and no others. */

import { expectThat } from '../conformance/expect.ts';
import type { Ground } from './ground.ts';

const NAMES = ['a', 'b', 'dir/c'];
const NEIGHBOURS = ['a-stays', 'dir/c-stays'];

/** Deletes some objects, twice, and one that never was. Resolves to the keys of those that were. */
export async function tryToDelete(ground: Ground): Promise<readonly string[]> {
  const [writer, reader] = [await ground.client(0), await ground.client(1)];
  for (const name of [...NAMES, ...NEIGHBOURS]) await writer.create(ground.key(name), ground.bytes(8));
  const keys = NAMES.map((name) => ground.key(name));
  await writer.delete([...keys, ground.key('never-created')]);
  await writer.delete(keys); // Again: a missing object counts as deleted.
  for (const key of keys)
    expectThat((await reader.find(key)) === null, 'an object is still there after it was deleted');
  for (const name of NEIGHBOURS)
    expectThat((await reader.find(ground.key(name))) !== null, 'an object beside a deleted one vanished too');
  return keys;
}

/** A listing of another client never shows what was deleted before it. */
export async function tryToListAfterDelete(ground: Ground, rounds: number): Promise<void> {
  const [writer, reader] = [await ground.client(0), await ground.client(1)];
  for (let round = 1; round <= rounds; round += 1) {
    const [gone, stays] = [ground.key(`${round}/gone`), ground.key(`${round}/stays`)];
    for (const key of [gone, stays]) await writer.create(key, ground.bytes(8));
    // List before the delete, so that a cached listing would fail the trial.
    await reader.keys(ground.key(`${round}/`));
    await writer.delete([gone]);
    const keys = await reader.keys(ground.key(`${round}/`));
    expectThat(!keys.includes(gone), 'an object is still listed after it was deleted');
    expectThat(keys.includes(stays), 'an object beside a deleted one is no longer listed');
  }
}
