/**
 * Measured calls in a separate process: `run-one.ts save|restore JSON`. Prints the cost of the last
 * call as one line of JSON. The first call of a process also loads and compiles its code.
 */

import { openCheckpointManager } from '@holdfast/stores';

interface Job {
  readonly uri: string;
  /** For save: the directory to save. For restore: the directory to create. */
  readonly directory: string;
  /** Number of saves in this process, each with its own version. Default 1. */
  readonly times?: number;
}

const [action, text] = process.argv.slice(2);
const { uri, directory, times = 1 } = JSON.parse(text ?? '{}') as Job;
await using manager = await openCheckpointManager(uri);
const call = () =>
  action === 'save' ? manager.save({ dir: directory }) : manager.restore({ to: directory, replace: true });
for (let round = 1; round < times; round++) await call();
const before = process.cpuUsage();
const start = performance.now();
const { sizeBytes } = await call();
const wallMs = performance.now() - start;
const { user, system } = process.cpuUsage(before);
const { maxRSS } = process.resourceUsage();
process.stdout.write(
  `${JSON.stringify({ sizeBytes, wallMs, cpuMs: (user + system) / 1000, peakRssBytes: maxRSS * 1024 })}\n`,
);
