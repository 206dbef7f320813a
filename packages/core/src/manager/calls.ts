/** What the calls of one manager have in common. */

import type { WaitOptions } from '../contract/checkpoint-manager.ts';
import { checkOptions, type Rules } from '../contract/checks.ts';
import type { RunContext } from './run/index.ts';
import { toldEvents } from './told-events.ts';

export class Calls {
  readonly #run: RunContext;
  readonly #closing: AbortSignal;

  constructor(run: RunContext, closing: AbortSignal) {
    this.#run = run;
    this.#closing = closing;
  }

  /** Checks the options. The signal in the result also fires when the manager is closed. */
  bounded<T extends WaitOptions>(options: T, rules: Rules<T>): T & { signal: AbortSignal } {
    checkOptions(options, rules, 'what the call is given');
    const onProgress = toldEvents(options.onProgress, this.#run.logger);
    return { ...options, ...(onProgress && { onProgress }), signal: this.until(options.signal) };
  }

  until(signal: AbortSignal | undefined): AbortSignal {
    const closing = this.#closing;
    return signal ? AbortSignal.any([signal, closing]) : closing;
  }

  /** Applies the retention rules in the background after a call that may have committed. */
  thenRetain<T>(over: Promise<T>): Promise<T> {
    return over.finally(() => this.#run.retention.start());
  }
}
