/**
 * Measured calls in a process of their own: `run-one.ts save|restore JSON`. Prints what the last of them cost as one line of JSON. The
 * first call of a process also loads and compiles the code that it needs.
 */

import { openCheckpointManager } from '@holdfast/stores';

interface Job {
  readonly uri: string;
  /** Save: the directory to save. Restore: the directory to make. */
  readonly directory: string;
  /** Saves in this process, each a version of its own. Default 1. */
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
