import type { Call } from '../command.ts';
import { printable } from '../format.ts';

/** Warns on stderr, also with --quiet, that a file may be truncated. */
export function tellSuspicion(call: Call, reason: string): void {
  call.messages.warn(`suspicious   ${printable(reason)}`);
}

/** Reports each suspicion at once, and keeps it for `--json`. */
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
