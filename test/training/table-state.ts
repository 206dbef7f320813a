/**
 * The state of the table "Rollback versus Checkpoint". It sums up its data and records the calls of
 * its methods.
 */

import { LocalCoordinator, RecoverableError, State, StopIteration, train } from '@holdfast/training';

export const silent = { logger: { log: () => undefined } };

export interface Sums {
  readonly sum: number;
  readonly place: number;
}

export class Sum extends State<Sums> {
  sum = 0;
  place = 0;
  savesEachStep = false;
  calls: string[] = [];

  async sync(): Promise<void> {
    this.calls.push('sync');
  }

  override snapshot(): Sums | null {
    this.calls.push('snapshot');
    return { sum: this.sum, place: this.place };
  }

  override apply(snapshot: Sums | null): void {
    this.calls.push('apply');
    Object.assign(this, snapshot);
  }

  override async save(stream: WritableStream<Uint8Array>): Promise<void> {
    this.calls.push('save');
    const writer = stream.getWriter();
    await writer.write(Buffer.from(JSON.stringify([this.sum, this.place])));
    writer.releaseLock();
  }

  override async load(stream: ReadableStream<Uint8Array>): Promise<void> {
    this.calls.push('load');
    [this.sum, this.place] = (await new Response(stream).json()) as [number, number];
  }

  override shouldSaveCheckpoint(): boolean {
    return this.savesEachStep;
  }
}

/** A state without rollback. */
export class SumWithoutSnapshot extends Sum {
  override snapshot(): null {
    return null;
  }
}

/**
 * Adds 1, 2, … `last`. Throws `error` once, in the middle of the step that follows `after` data.
 */
export function adding(last: number, { error, after }: { error?: Error; after?: number } = {}) {
  let isDue = error !== undefined;
  return (state: Sum) => {
    state.calls.push('step');
    if (state.place === last) throw new StopIteration('no data left');
    state.place += 1;
    if (isDue && state.place === (after ?? 0) + 1) {
      isDue = false;
      throw error;
    }
    state.sum += state.place;
  };
}

/** The whole job is lost: the error was not caught, and nothing in memory is left. */
export const lost = new Error('the machine is gone');
export const recoverable = () => new RecoverableError('all_reduce: a worker is gone');

export const run = (state: Sum, step: (state: Sum) => void) =>
  train(new LocalCoordinator(), step, state, silent);

export const count = (state: Sum, call: string) => state.calls.filter((each) => each === call).length;
