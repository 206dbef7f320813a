/** A worker that meets the others and gathers with them, over and over, until it is killed: `etcd-worker.ts OPTIONS`, as JSON. Says each world. */

import { EtcdCoordinator, type EtcdCoordinatorOptions, RecoverableError } from '@holdfast/training';

const coordinator = new EtcdCoordinator(JSON.parse(process.argv[2] ?? '') as EtcdCoordinatorOptions);

for (;;) {
  const world = await coordinator.rendezvous();
  console.log(`rank ${world.rank} of ${world.size}`);
  try {
    for (;;) await world.barrier();
  } catch (error) {
    if (!(error instanceof RecoverableError)) throw error;
  }
}
