import type { Coordinator, World } from './coordinator.ts';
import { CoordinatorDefaults } from './coordinator-defaults.ts';
import { StopException } from './errors.ts';

/**
 * One process that trains alone, in a world of one that never changes. Derive a class from it to
 * save or to watch by other rules.
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

  /**
   * Ends training after the current step, which is still saved if a save is due. Safe to repeat.
   */
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
