import type { Call } from './command.ts';
import { formatRoughDuration } from './format.ts';

const SILENCE_MS = 2000;

/**
 * Shows the elapsed time of work without other progress: `collecting   12 s`. Short work shows no
 * line.
 */
export function watchElapsed(call: Call, doing: string): Promise<void> {
  const beganMs = call.clock.monotonicMs();
  const line = (nowMs: number) => `${doing}   ${formatRoughDuration(nowMs - beganMs)}`;
  return call.reporter.watch({
    bars: (nowMs) => (nowMs - beganMs < SILENCE_MS ? [] : [`  ${line(nowMs)}`]),
    line,
  });
}
