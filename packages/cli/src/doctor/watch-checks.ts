import type { Call } from '../command.ts';
import { formatRoughDuration } from '../format.ts';

export interface Current {
  /** `null`: no check is running. Its line must fit 80 columns. */
  check: { readonly title: string; readonly beganMs: number } | null;
}

/** Shows which check is running, on a terminal or in a log. */
export async function watchChecks(call: Call): Promise<Current> {
  const current: Current = { check: null };
  const line = (nowMs: number) =>
    current.check === null
      ? 'ending'
      : `checking ${current.check.title}   ${formatRoughDuration(nowMs - current.check.beganMs)}`;
  await call.reporter.watch({
    bars: (nowMs) => (current.check === null ? [] : [`  ${line(nowMs)}`]),
    line,
  });
  return current;
}
