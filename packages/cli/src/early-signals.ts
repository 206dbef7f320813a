/**
 * Signals that arrive while the program loads. Without a listener, Node would end the process at
 * once and without a word, also a save that is to outlast SIGTERM.
 *
 * This module imports nothing, so that it runs as early as possible.
 */

type Emitter = Pick<NodeJS.EventEmitter, 'on' | 'off'>;
export type StopSignal = 'SIGINT' | 'SIGTERM';

export class EarlySignals {
  readonly #source: Emitter;
  readonly #received: StopSignal[] = [];
  readonly #onInterrupt = () => this.#received.push('SIGINT');
  readonly #onTerminate = () => this.#received.push('SIGTERM');

  /** Listens from now on. */
  constructor(source: Emitter) {
    this.#source = source;
    source.on('SIGINT', this.#onInterrupt);
    source.on('SIGTERM', this.#onTerminate);
  }

  /** Stops listening. Returns what was received, in order. */
  take(): StopSignal[] {
    this.#source.off('SIGINT', this.#onInterrupt);
    this.#source.off('SIGTERM', this.#onTerminate);
    return this.#received.splice(0);
  }
}
