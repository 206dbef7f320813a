import type { Coordinator } from './coordinator.ts';

/**
 * Defaults for a coordinator: it never asks for a save and reports nothing. Derive a class from it
 * to save or to watch.
 */
export abstract class CoordinatorDefaults
  implements Pick<Coordinator, 'shouldSaveCheckpoint' | 'monitorProgress' | 'reportProgress' | 'onError'>
{
  shouldSaveCheckpoint(): boolean {
    return false;
  }

  monitorProgress(_state: unknown, _stats: unknown): void {} // no monitoring by default

  reportProgress(_state: unknown): void {} // no reporting by default

  onError(_error: unknown): void {} // the loop logs the error, or ends with it
}
