/** The runs that pages may show, and the few of them that are open. */

import { CheckpointError, type Clock, type RunManager } from '@holdfast/core/contract';
import { RunReader } from './run-reader.ts';

/** Each holds the checkpoints of its run in memory. */
const OPEN_MAX = 4;

export interface RunsOptions {
  readonly open: (uri: string) => Promise<RunManager>;
  readonly clock: Clock;
  /** Runs below the operands, as the page of the fleet has found them. */
  readonly isFound: (uri: string) => boolean;
  readonly uris: readonly string[];
}

export class Runs {
  readonly #options: RunsOptions;
  /** In the order of their last use. */
  readonly #readers = new Map<string, Promise<RunReader>>();

  constructor(options: RunsOptions) {
    this.#options = options;
  }

  /**
   * The reader of a run. `InvalidArgument`: the command was not started for this run. So a page, or
   * a program that knows the token, cannot make this process read other places.
   */
  async reader(uri: string): Promise<RunReader> {
    const { uris, isFound, open, clock } = this.#options;
    if (!uris.includes(uri) && !isFound(uri))
      throw new CheckpointError('InvalidArgument', 'this page was not started for that run');
    const before = this.#readers.get(uri);
    const known = await before?.catch(() => undefined);
    if (known?.isReplaced && this.#readers.get(uri) === before) {
      this.#readers.delete(uri);
      void known.close();
    }
    const reader = this.#readers.get(uri) ?? open(uri).then((manager) => new RunReader(manager, uri, clock));
    this.#readers.delete(uri);
    this.#readers.set(uri, reader);
    reader.catch(() => this.#readers.delete(uri));
    await this.#closeOldest();
    return reader;
  }

  async close(): Promise<void> {
    const readers = [...this.#readers.values()];
    this.#readers.clear();
    await Promise.allSettled(readers.map(async (reader) => (await reader).close()));
  }

  async #closeOldest(): Promise<void> {
    const [oldest] = this.#readers;
    if (this.#readers.size <= OPEN_MAX || oldest === undefined) return;
    const [uri, reader] = oldest;
    this.#readers.delete(uri);
    await reader.then((each) => each.close()).catch(() => undefined);
  }
}
