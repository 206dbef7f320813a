import { isCheckpointError, type Logger } from '@holdfast/core/contract';
import { mayPass, messageOf } from './errors.ts';
import { type LoopManager, withAdvice } from './loop-manager.ts';
import { saveCheckpoint, startSave } from './save-checkpoint.ts';
import type { Saver } from './saving/saver.ts';
import type { State } from './state.ts';

export interface LoopSavesParts {
  readonly manager: LoopManager;
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
      await saveCheckpoint(manager.current, state, logger);
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
   *
   * If the world has ended as well, the others have replaced a frozen rank 0. `Fenced` is then as
   * good as transient, because the next manager is opened when this worker is rank 0 again.
   */
  judge(error: unknown, { hasWorldEnded = false } = {}): void {
    const { manager, saver } = this.#parts;
    const isReplaced = hasWorldEnded && manager.isOpenedByLoop && isCheckpointError(error, 'Fenced');
    if (!mayPass(error) && !isReplaced) {
      throw manager.isOpenedByLoop ? error : withAdvice(error, saver !== null);
    }
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
