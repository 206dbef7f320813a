/** Listings show every object that was created, in order, and only those of the prefix. */

import { expectThat } from '../conformance/expect.ts';
import type { Ground } from './ground.ts';
import type { PatientClient } from './patient-client.ts';

/** Each of `rounds` objects is in the listing of another client once its create has resolved. */
export async function tryToListAfterWrite(ground: Ground, rounds: number): Promise<void> {
  const [writer, reader] = [await ground.client(0), await ground.client(1)];
  for (let round = 1; round <= rounds; round += 1) {
    const key = ground.key(`fresh/${String(round).padStart(2, '0')}`);
    await writer.create(key, ground.bytes(8));
    const keys = await reader.keys(ground.key('fresh/'));
    expectThat(keys.includes(key), `object ${round} of ${rounds} was not listed right after its create`);
    expectThat(keys.length === round, `${round} objects are listed as ${keys.length}`);
  }
}

/** `names`: all that the listing of `prefix` must show, in order, without the prefix. */
export async function expectListing(
  ground: Ground,
  reader: PatientClient,
  prefix: string,
  names: readonly string[],
): Promise<void> {
  const found = await reader.keys(ground.key(prefix));
  const expected = names.map((name) => ground.key(prefix + name));
  if (found.join('\n') === expected.join('\n')) return;
  const sorted = [...found].sort().join('\n') === [...expected].sort().join('\n');
  const missing = expected.filter((key) => !found.includes(key)).length;
  const foreign = found.filter((key) => !expected.includes(key)).length;
  const fault = sorted
    ? 'keys are not in the order of their UTF-8 bytes'
    : `of ${expected.length} objects a listing lacks ${missing}, and it shows ${foreign} that do not belong there`;
  expectThat(false, fault);
}
