/**
 * `bench records`: measures how long the worst records take until they are read or rejected. These
 * have correct checksums and as many items of one kind as allowed.
 */

import { decodeRecord } from '@holdfast/core/internal/format/index';
import { allBombs } from '../records/bombs.ts';
import { say } from './options.ts';

const LIMIT_MS = 2000;
const SHOWN = 5;

/** Prints the slowest. Resolves to false if one takes longer than the limit for records. */
export async function benchRecords(): Promise<boolean> {
  const times = allBombs().map((bomb) => {
    const bytes = bomb.make();
    const startMs = performance.now();
    const start = process.cpuUsage();
    let outcome = 'read';
    try {
      decodeRecord(bomb.kind, bytes, { key: 'bomb' });
    } catch {
      outcome = 'refused';
    }
    const { user, system } = process.cpuUsage(start);
    return { ...bomb, outcome, timeMs: performance.now() - startMs, cpuMs: (user + system) / 1000 };
  });
  times.sort((a, b) => b.cpuMs - a.cpuMs);
  for (const { kind, name, outcome, timeMs, cpuMs } of times.slice(0, SHOWN))
    say(`${cpuMs.toFixed(0)} ms of CPU in ${timeMs.toFixed(0)} ms   ${kind} with ${name}: ${outcome}`);
  say(`${times.length} records; limit ${LIMIT_MS} ms of CPU each`);
  return (times[0]?.cpuMs ?? 0) <= LIMIT_MS;
}
