import type { Clock } from '@holdfast/core/contract';
import type { Messages } from './messages.ts';

/** As often as a log gets a line of progress. */
const NOTE_EVERY_MS = 10_000;

/**
 * Reports that a request is repeated, and why. The first note appears at once, so that the screen
 * is not silent, then one every ten seconds. With `--verbose` all are shown.
 */
export function repeatNotes(
  clock: Clock,
  messages: Pick<Messages, 'note' | 'detail'>,
): (why: string) => void {
  let toldAtMs = Number.NEGATIVE_INFINITY;
  return (why) => {
    const nowMs = clock.monotonicMs();
    const line = `trying again: ${why}`;
    if (nowMs - toldAtMs < NOTE_EVERY_MS) {
      messages.detail(line);
      return;
    }
    toldAtMs = nowMs;
    messages.note(line);
  };
}
