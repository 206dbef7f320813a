/** Checks that the store can be reached, and what the credentials allow. */

import { type CheckpointError, isCheckpointError } from '@holdfast/core/contract';
import { expectRead, expectThat, type PatientClient } from '@holdfast/testkit';
import { formatBriefDuration } from '../format.ts';
import type { Check, Outcome } from './check.ts';
import type { Probe } from './probe.ts';

/** A server that was just started needs seconds until it answers: these tries take about six. */
const TRIES_TO_REACH = 8;

export const accessChecks: readonly Check[] = [
  {
    id: 'reachable',
    title: 'reachable',
    needs: [],
    meaning: 'nothing is known about this store',
    advice: 'check the URI, and that the store can be reached from here',
    run: reach,
  },
  {
    id: 'may-list',
    title: 'may list',
    needs: ['reachable'],
    meaning: 'the objects of a run cannot be distinguished from those of other runs',
    advice: 'use another store: a listing must show the keys that begin with its prefix, and no others',
    whenDenied: 'without listing, the latest checkpoint cannot be found and nothing can be committed',
    run: list,
  },
  {
    id: 'may-create',
    title: 'may create',
    needs: ['reachable'],
    meaning: 'objects with new names cannot be created',
    advice: 'use a store with create-if-absent (on S3: If-None-Match) that accepts new keys',
    whenDenied: 'nothing can be saved',
    run: create,
  },
  {
    id: 'may-read',
    title: 'may read',
    needs: ['may-create'],
    meaning: 'checkpoints would come back damaged',
    advice: 'use another store: bytes must come back as they were sent',
    whenDenied: 'nothing can be restored, and no save can find out whether its commit took effect',
    run: read,
  },
  {
    id: 'may-delete',
    title: 'may delete',
    needs: ['reachable'],
    meaning: 'nothing can ever be removed',
    advice: 'use another store: a deleted object must be gone, and a second delete must succeed',
    whenDenied:
      'checkpoints can be saved and restored, but old ones and the leftovers of killed writers stay forever',
    run: remove,
  },
];

/** A refusal is an answer too. The following checks report what is refused. */
async function reach(probe: Probe): Promise<Outcome> {
  const beganMs = probe.clock.monotonicMs();
  const client = await probe.client(0, { triesMax: TRIES_TO_REACH });
  const refusal = await client.firstPage(probe.prefix).then(() => null, orDenial);
  const took = formatBriefDuration(probe.clock.monotonicMs() - beganMs);
  return { seen: refusal === null ? `first answer after ${took}` : `first answer after ${took}: a refusal` };
}

function orDenial(error: unknown): CheckpointError {
  if (isCheckpointError(error, 'Denied')) return error;
  throw error;
}

async function list(probe: Probe): Promise<Outcome> {
  const keys = await (await probe.client()).keys(probe.prefix);
  expectThat(keys.length === 0, `a prefix never used before is listed with ${keys.length} objects`);
  return { seen: '' };
}

async function create(probe: Probe): Promise<Outcome> {
  await createNew(await probe.client(), probe.key('object'), probe.bytes(100));
  return { seen: '' };
}

async function read(probe: Probe): Promise<Outcome> {
  const client = await probe.client();
  const bytes = probe.bytes(100);
  await createNew(client, probe.key('object'), bytes);
  await expectRead(() => client.bytesOf(probe.key('object')), { bytes, what: 'an object' });
  return { seen: '' };
}

async function createNew(client: PatientClient, key: string, bytes: Uint8Array): Promise<void> {
  const outcome = await client.create(key, bytes);
  expectThat(
    outcome === 'created',
    'a create of a key never used before is refused because the object exists',
  );
}

/** Without permission to create, it deletes a missing object, which needs the same permission. */
async function remove(probe: Probe): Promise<Outcome> {
  const client = await probe.client();
  const key = probe.key('object');
  await client.create(key, probe.bytes(100)).catch(orNothing);
  await client.delete([key]);
  return { seen: '' };
}

function orNothing(error: unknown): void {
  if (!isCheckpointError(error, 'Denied')) throw error;
}
