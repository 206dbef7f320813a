/** Every commit depends on this: of all creates of one key, exactly one succeeds. */

import { isCheckpointError } from '@holdfast/core/contract';
import { expectThat } from '../conformance/expect.ts';
import type { Ground } from './ground.ts';
import type { PatientClient } from './patient-client.ts';
import { expectRead, isSame } from './read-back.ts';

/** Codes by which a store may reject an object for its content. */
const REFUSALS = ['InvalidArgument', 'Unsupported', 'Unexpected'] as const;
const RACING_CLIENTS = 4;
const RACE_BYTES = 4096; // About the size of a catalog entry with a few checkpoints.

/**
 * A second create is refused, with any bytes and by any client, and changes nothing. `alsoTried`:
 * bytes of further creates.
 */
export async function tryToCreateTwice(
  ground: Ground,
  alsoTried: readonly (readonly [what: string, bytes: Uint8Array])[] = [],
): Promise<void> {
  const [first, second] = [await ground.client(0), await ground.client(1)];
  const key = ground.key('object');
  const bytes = ground.bytes(100);
  await createFirst(first, key, bytes);
  const { etag } = await first.head(key);
  for (const client of [second, first]) {
    for (const [what, again] of [
      ['other bytes', ground.bytes(100)],
      ['the same bytes', bytes],
      ...alsoTried,
    ] as const) {
      await expectRefused(client, key, again, what);
      const where = 'after a second create was refused, the object';
      const refused = again === bytes ? [] : [again];
      await expectRead(() => client.bytesOf(key), { bytes, what: where, refused });
    }
  }
  expectThat((await first.head(key)).etag === etag, 'a second create that was refused changed the etag');
}

async function createFirst(client: PatientClient, key: string, bytes: Uint8Array): Promise<void> {
  const outcome = await client.create(key, bytes);
  expectThat(outcome === 'created', 'the first create of a new key is refused because the object exists');
}

async function expectRefused(
  client: PatientClient,
  key: string,
  bytes: Uint8Array,
  what: string,
): Promise<void> {
  if ((await client.createAgain(key, bytes)) === 'exists') return;
  const effect = isSame(await client.bytesOf(key), bytes) ? 'and replaced the object' : 'but had no effect';
  expectThat(false, `a second create of one key, with ${what}, succeeded, ${effect}`);
}

/** An object of no bytes is created, looked at and read. */
export async function tryEmptyObject(ground: Ground): Promise<void> {
  const client = await ground.client(0);
  const key = ground.key('empty');
  await createFirst(client, key, new Uint8Array(0)).catch((error: unknown) => {
    const isRefused = REFUSALS.some((code) => isCheckpointError(error, code));
    expectThat(!isRefused, `an empty object is refused: ${String(error)}`);
    throw error;
  });
  const { sizeBytes } = await client.head(key);
  expectThat(sizeBytes === 0, `the reported size of an empty object is ${sizeBytes}`);
  const { bytes } = await client.get(key);
  expectThat(bytes.byteLength === 0, `a read of an empty object returns ${bytes.byteLength} bytes`);
}

export interface RaceOptions {
  /** Beginning of the keys. */
  readonly name: string;
  /** Creates of one key at once. */
  readonly racers: number;
  readonly roundsMin: number;
  readonly roundsMax: number;
  /** After `roundsMin`, further rounds begin for this time only. */
  readonly ms: number;
}

/** Exactly one of the concurrent creates of a key succeeds. Resolves to the number of rounds. */
export async function tryRaces(ground: Ground, options: RaceOptions): Promise<number> {
  const { name, racers, roundsMin, roundsMax, ms } = options;
  const clients = await Promise.all(
    Array.from({ length: RACING_CLIENTS }, (_, number) => ground.client(number)),
  );
  const beganMs = ground.clock.monotonicMs();
  let round = 0;
  while (round < roundsMin || (round < roundsMax && ground.clock.monotonicMs() - beganMs < ms)) {
    round += 1;
    await race(ground, clients, { key: ground.key(`${name}-${round}`), racers, where: `in round ${round}` });
  }
  return round;
}

async function race(
  ground: Ground,
  clients: readonly PatientClient[],
  { key, racers, where }: { key: string; racers: number; where: string },
): Promise<void> {
  const bodies = Array.from({ length: racers }, () => ground.bytes(RACE_BYTES));
  const ended = await Promise.allSettled(
    bodies.map((bytes, n) => (clients[n % RACING_CLIENTS] as PatientClient).create(key, bytes)),
  );
  const winners = bodies.filter((_, n) => {
    const outcome = ended[n];
    return outcome?.status === 'fulfilled' && outcome.value === 'created';
  });
  // Two winners are the most important failure, whatever else went wrong.
  expectThat(winners.length < 2, `${where}, ${winners.length} of ${racers} creates of one key succeeded`);
  const failed = ended.find((outcome) => outcome.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
  expectThat(winners.length > 0, `${where}, all ${racers} creates of one key were refused`);
  const [winner] = winners as [Uint8Array];
  const refused = bodies.filter((bytes) => bytes !== winner);
  const expected = { bytes: winner, what: `${where}, the object`, refused };
  await Promise.all(clients.map((client) => expectRead(() => client.bytesOf(key), expected)));
}
