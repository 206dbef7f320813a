import type { Coordinator } from './coordinator.ts';

/** What a coordinator does that has no rules of its own for saving, and nobody to tell. Derive a class from it to save or to watch. */
export abstract class CoordinatorDefaults
  implements Pick<Coordinator, 'shouldSaveCheckpoint' | 'monitorProgress' | 'reportProgress' | 'onError'>
{
  shouldSaveCheckpoint(): boolean {
    return false;
  }

  monitorProgress(_state: unknown, _stats: unknown): void {} // nobody watches

  reportProgress(_state: unknown): void {} // nor listens

  onError(_error: unknown): void {} // the loop logs it, or ends with it
}
