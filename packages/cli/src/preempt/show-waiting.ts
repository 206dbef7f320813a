/** Shows on standard error which versions the command waits for. */

import type { Call } from '../command.ts';
import { formatBytes, formatRoughDuration, formatWriters } from '../format.ts';
import { lackText } from './describe.ts';
import type { WatchedVersion } from './wait-for-begun.ts';

const SILENCE_MS = 2000;
const LINES_MAX = 8;
const EVENT_EVERY_MS = 1000;

/** Resolves to a function to call after each poll. */
export async function showWaiting(
  call: Call,
  { beganMs, untilMs }: { beganMs: number; untilMs: number },
): Promise<(versions: readonly WatchedVersion[]) => void> {
  let open: readonly WatchedVersion[] | null = null;
  const time = (nowMs: number) =>
    `${formatRoughDuration(nowMs - beganMs)} of ${formatRoughDuration(untilMs - beganMs)}`;
  await call.reporter.watch({
    bars: (nowMs) => {
      if (open === null && nowMs - beganMs < SILENCE_MS) return [];
      return linesOf(open)
        .slice(0, LINES_MAX)
        .map((line) => `  ${line}   ${time(nowMs)}`);
    },
    line: (nowMs) => {
      const [first, ...others] = linesOf(open);
      if (first === undefined) return '';
      return [first, ...(others.length > 0 ? [`${others.length} more`] : []), time(nowMs)].join('   ');
    },
  });
  const tell = teller(call, { beganMs, untilMs });
  return (versions) => {
    open = versions.filter(({ fate }) => fate === 'open');
    tell(versions);
  };
}

/** `null`: the store has not answered yet. */
function linesOf(open: readonly WatchedVersion[] | null): string[] {
  return open === null ? ['waiting for the store'] : open.map(lineOf);
}

function lineOf({ version, begun }: WatchedVersion): string {
  if (begun === null) return `version ${version}   no file has arrived`;
  const missing = begun.missing.map(({ writer }) => writer);
  if (missing.length === 0) return `version ${version}   committing`;
  const arrived = begun.uploadedBytes === 0 ? '' : `   ${formatBytes(begun.uploadedBytes)} arrived`;
  return `version ${version}   waiting for ${formatWriters(missing)} of ${begun.worldSize}${arrived}`;
}

/** Prints a permanent line when a version is first seen, and the events of `--progress json`. */
function teller(
  call: Call,
  { beganMs, untilMs }: { beganMs: number; untilMs: number },
): (versions: readonly WatchedVersion[]) => void {
  const told = new Set<bigint>();
  let lastEventMs = Number.NEGATIVE_INFINITY;
  return (versions) => {
    const nowMs = call.clock.monotonicMs();
    const isDue = nowMs - lastEventMs >= EVENT_EVERY_MS;
    if (isDue) lastEventMs = nowMs;
    for (const watched of versions) {
      const { version, begun, fate } = watched;
      if (fate !== 'open') continue;
      if (!told.has(version)) {
        const left = formatRoughDuration(untilMs - nowMs);
        call.messages.note(`waiting   version ${version}   ${lackText(watched)}   ${left} left`);
        told.add(version);
      }
      const missingWriters = (begun?.missing ?? []).map(({ writer }) => writer);
      if (isDue)
        call.reporter.onProgress({ type: 'waiting', version, missingWriters, waitedMs: nowMs - beganMs });
    }
  };
}
