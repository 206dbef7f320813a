/**
 * Shared by the tests of the election: trainers that each have a separate election, and the winners
 * as the store shows them.
 */

import type { ObjectStore } from '@holdfast/core/contract';
import { decodeRecord } from '@holdfast/core/internal/format/index';
import { ManualClock } from '@holdfast/testkit';
import { StoreElection, type StoreElectionOptions } from '@holdfast/training';

export interface Trainer {
  readonly id: string;
  readonly clock: ManualClock;
  /** Leaves the store open. */
  ask(blockMs: number, signal?: AbortSignal): Promise<boolean>;
}

export function trainer(
  id: string,
  store: ObjectStore,
  { clock = new ManualClock(), ...options }: StoreElectionOptions & { readonly clock?: ManualClock } = {},
): Trainer {
  const election = new StoreElection(store, { clock, ...options });
  return { id, clock, ask: (blockMs, signal) => election.requestSave(id, blockMs, { signal }) };
}

/** All holders in the store, in the order of their numbers. */
export async function holders(store: ObjectStore): Promise<string[]> {
  const ids: string[] = [];
  for await (const { objects } of store.list('elections/')) {
    for (const { key } of objects) {
      const { bytes } = await store.get(key, { maxBytes: 4096 });
      const grant = decodeRecord('grant', bytes, { key });
      if (
        key !== `elections/${String(ids.length + 1).padStart(20, '0')}.json` ||
        grant.seq !== ids.length + 1
      ) {
        throw new Error(`${key} holds grant ${grant.seq}, and stands at place ${ids.length + 1}`);
      }
      ids.push(grant.trainerId);
    }
  }
  return ids;
}

/**
 * 32 trainers ask at once, and again when the grant has expired. Each time, exactly one is elected.
 */
export async function electsOneOf32(
  open: () => Promise<ObjectStore>,
): Promise<{ told: string[]; stored: string[] }> {
  const BLOCK_MS = 1000;
  const stores = await Promise.all(Array.from({ length: 32 }, open));
  try {
    const trainers = stores.map((store, index) => trainer(`trainer-${index}`, store));
    const told: string[] = [];
    for (let round = 0; round < 2; round++) {
      const answers = await Promise.all(trainers.map((each) => each.ask(BLOCK_MS)));
      told.push(
        trainers
          .filter((_, index) => answers[index])
          .map(({ id }) => id)
          .join(' and '),
      );
      for (const { clock } of trainers) await clock.advance(BLOCK_MS * 1.25);
    }
    return { told, stored: await holders(stores[0] as ObjectStore) };
  } finally {
    await Promise.all(stores.map((store) => store.close()));
  }
}
