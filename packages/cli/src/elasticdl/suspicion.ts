import type { Call } from '../command.ts';
import { printable } from '../format.ts';

/** On stderr, also with --quiet: a file may have been cut off. */
export function tellSuspicion(call: Call, reason: string): void {
  call.messages.warn(`suspicious   ${printable(reason)}`);
}

/**
 * For a call that learns of suspicions one by one: tells each at once, and keeps it for `--json`.
 */
export function suspicionTeller(call: Call): {
  readonly suspicions: readonly string[];
  readonly onSuspicion: (reason: string) => void;
} {
  const suspicions: string[] = [];
  const onSuspicion = (reason: string) => {
    suspicions.push(reason);
    tellSuspicion(call, reason);
  };
  return { suspicions, onSuspicion };
}
