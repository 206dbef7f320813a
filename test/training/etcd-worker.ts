/**
 * A worker that meets the others and gathers with them, over and over, until it is killed. Usage:
 * `etcd-worker.ts OPTIONS`, with the options as JSON.
 */

import { EtcdCoordinator, type EtcdCoordinatorOptions, RecoverableError } from '@holdfast/training';

const coordinator = new EtcdCoordinator(JSON.parse(process.argv[2] ?? '') as EtcdCoordinatorOptions);
console.log('ready');

for (;;) {
  const world = await coordinator.rendezvous();
  try {
    // The coordinator does not use the state.
    do await world.barrier();
    while (!(await coordinator.shouldRendezvous(undefined as never)));
  } catch (error) {
    if (!(error instanceof RecoverableError)) throw error;
  }
}
