import { isCheckpointError, type Logger } from '@holdfast/core/contract';
import type { TrainingCheckpointManager } from './checkpoints.ts';
import { RecoverableError } from './errors.ts';
import { saveCheckpoint, startSave } from './save-checkpoint.ts';
import type { Saver } from './saving/saver.ts';
import type { State } from './state.ts';

export interface LoopSavesParts {
  readonly manager: TrainingCheckpointManager;
  /** `null`: the loop waits for each save to end. */
  readonly saver: Saver | null;
  readonly state: State;
  readonly logger: Logger;
  readonly onError: (error: unknown) => void;
}

/** Starts the saves of rank 0 and handles their failures. */
export class LoopSaves {
  readonly #parts: LoopSavesParts;
  #isBehind = false;

  constructor(parts: LoopSavesParts) {
    this.#parts = parts;
  }

  /** The state is newer than the last save that ended or started. */
  get isBehind(): boolean {
    return this.#isBehind;
  }

  /** Records that a step is done. */
  noteStep(): void {
    this.#isBehind = true;
  }

  /**
   * Resolves when the state may change again. If the saver rejects with a transient failure of an
   * earlier save, reports it and saves the state anyway.
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

  /**
   * Reports a transient failure and throws any other. The step is done on all ranks, so undoing it
   * on this rank alone would gain nothing.
   */
  judge(error: unknown): void {
    if (!mayPass(error)) throw error;
    this.#parts.onError(error);
    this.#parts.logger.log('warn', `a checkpoint could not be saved; training continues: ${error.message}`, {
      error,
    });
  }

  /**
   * Resolves when no save is in flight. Rejects with a failed save's error that was not yet
   * reported.
   */
  async settle(): Promise<void> {
    await this.#parts.saver?.settled();
  }

  /**
   * Saves the state, unless it is already saved, and waits for the end. Rejects if that save fails.
   */
  async saveLast(saver: Saver): Promise<void> {
    try {
      await saver.settled();
    } catch (error) {
      const message = `a checkpoint could not be saved; the last state will be saved next: ${messageOf(error)}`;
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
    else this.#parts.logger.log('info', 'a checkpoint was skipped: another save is in flight');
  }
}

/** The next save may succeed. */
export function mayPass(error: unknown): error is Error {
  return error instanceof RecoverableError || (isCheckpointError(error) && error.status !== 'permanent');
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
