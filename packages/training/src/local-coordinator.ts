import type { Coordinator, World } from './coordinator.ts';
import { CoordinatorDefaults } from './coordinator-defaults.ts';
import { StopException } from './errors.ts';

/**
 * One process that trains alone: a world of one, which never changes. Derive a class from it to save or to watch by rules of your own.
 */
export class LocalCoordinator extends CoordinatorDefaults implements Coordinator {
  #isStopped = false;

  async rendezvous(): Promise<World> {
    if (this.#isStopped) throw new StopException('training is over');
    return {
      rank: 0,
      size: 1,
      allGather: async (bytes) => [bytes.slice()],
      barrier: async () => undefined,
    };
  }

  /** Training ends after the present step, which is saved if it is to be. Safe to repeat. */
  stop(): void {
    this.#isStopped = true;
  }

  shouldStopTraining(): boolean {
    return this.#isStopped;
  }

  async signalTrainingDone(): Promise<void> {
    this.stop();
  }

  shouldRendezvous(_state: unknown): boolean {
    return false;
  }
}
