/** Every client sees a created object, and any part of it can be read. */

import { expectThat } from '../conformance/expect.ts';
import type { Ground } from './ground.ts';
import type { PatientClient } from './patient-client.ts';
import { expectRead } from './read-back.ts';

export interface SeenObject {
  readonly key: string;
  readonly bytes: Uint8Array;
  /** The client that did not create it. */
  readonly reader: PatientClient;
}

/** Each of `rounds` objects is there for another client as soon as its create has resolved. */
export async function tryToReadAfterWrite(
  ground: Ground,
  rounds: number,
  alsoExpect?: (seen: SeenObject) => Promise<void>,
): Promise<void> {
  const [writer, reader] = [await ground.client(0), await ground.client(1)];
  for (let round = 1; round <= rounds; round += 1) {
    const key = ground.key(`object-${round}`);
    const bytes = ground.bytes(64);
    // Read before the create, so that a cached "not found" would fail the trial.
    expectThat((await reader.find(key)) === null, 'a key never used before is found');
    await writer.create(key, bytes);
    const read = async () => {
      const found = await reader.find(key);
      expectThat(found !== null, `object ${round} of ${rounds} was not there right after its create`);
      return found.bytes;
    };
    await expectRead(read, { bytes, what: 'an object just created' });
    const { sizeBytes } = await reader.head(key);
    expectThat(sizeBytes === 64, `the reported size of an object of 64 bytes is ${sizeBytes}`);
    await alsoExpect?.({ key, bytes, reader });
  }
}

export interface WantedRange {
  readonly what: string;
  readonly offsetBytes: number;
  readonly lengthBytes: number;
}

/** Ranges of an object come back exactly, also those that reach past its end. */
export async function tryToReadRanges(
  ground: Ground,
  sizeBytes: number,
  wanted: (sizeBytes: number) => readonly WantedRange[],
): Promise<void> {
  const client = await ground.client();
  const key = ground.key('object');
  const bytes = ground.bytes(Math.min(sizeBytes, client.capabilities.maxCreateBytes));
  await client.create(key, bytes);
  for (const { what, offsetBytes, lengthBytes } of wanted(bytes.byteLength)) {
    const expected = bytes.subarray(offsetBytes, offsetBytes + lengthBytes);
    await expectRead(() => client.range(key, offsetBytes, lengthBytes), { bytes: expected, what });
  }
}
