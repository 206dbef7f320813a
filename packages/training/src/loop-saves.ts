import { isCheckpointError, type Logger } from '@holdfast/core/contract';
import type { TrainingCheckpointManager } from './checkpoints.ts';
import { RecoverableError } from './errors.ts';
import { saveCheckpoint, startSave } from './save-checkpoint.ts';
import type { Saver } from './saving/saver.ts';
import type { State } from './state.ts';

export interface LoopSavesParts {
  readonly manager: TrainingCheckpointManager;
  /** `null`: each save is waited for to its end. */
  readonly saver: Saver | null;
  readonly state: State;
  readonly logger: Logger;
  readonly onError: (error: unknown) => void;
}

/** What rank 0 of a train loop saves, and what comes of it. */
export class LoopSaves {
  readonly #parts: LoopSavesParts;
  #isBehind = false;

  constructor(parts: LoopSavesParts) {
    this.#parts = parts;
  }

  /** The state is newer than all that was saved, or begun to be. */
  get isBehind(): boolean {
    return this.#isBehind;
  }

  /** A step is done. */
  noteStep(): void {
    this.#isBehind = true;
  }

  /**
   * Resolves when the state may change again. What a saver tells of an earlier save is told on, if that may pass, and the state is saved all the
   * same.
   */
  async save(): Promise<void> {
    const { manager, saver, state, logger } = this.#parts;
    if (saver === null) {
      await saveCheckpoint(manager, state, logger);
      this.#isBehind = false;
      return;
    }
    try {
      await this.#begin(saver);
    } catch (error) {
      this.judge(error);
      await this.#begin(saver);
    }
  }

  /** Tells of a failure that may pass, and throws any other: the step is done, on all ranks, and to undo it on this one would gain nothing. */
  judge(error: unknown): void {
    if (!mayPass(error)) throw error;
    this.#parts.onError(error);
    this.#parts.logger.log('warn', `a checkpoint could not be saved, training goes on: ${error.message}`, {
      error,
    });
  }

  /** Resolves when nothing is in flight; rejects with what a save failed with of which nobody has heard. */
  async settle(): Promise<void> {
    await this.#parts.saver?.settled();
  }

  /** Has the state saved to the end, unless it is, and rejects with what came in the way. */
  async saveLast(saver: Saver): Promise<void> {
    try {
      await saver.settled();
    } catch (error) {
      const message = `a checkpoint could not be saved, the last state follows: ${messageOf(error)}`;
      this.#parts.logger.log('warn', message, { error });
      this.#isBehind = true;
    }
    if (!this.#isBehind) return;
    await this.#begin(saver);
    await saver.settled();
  }

  async #begin(saver: Saver): Promise<void> {
    const start = await startSave(saver, this.#parts.state);
    if (start === 'started') this.#isBehind = false;
    else this.#parts.logger.log('info', 'a checkpoint was left out: another save is in flight');
  }
}

/** The next save may go well. */
export function mayPass(error: unknown): error is Error {
  return error instanceof RecoverableError || (isCheckpointError(error) && error.status !== 'permanent');
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
