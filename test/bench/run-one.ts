/** One measured call in a process of its own: `run-one.ts save|restore JSON`. Prints what it cost as one line of JSON. */

import { openCheckpointManager } from '@holdfast/stores';

interface Job {
  readonly uri: string;
  /** Save: the directory to save. Restore: the directory to make. */
  readonly directory: string;
}

const [action, text] = process.argv.slice(2);
const { uri, directory } = JSON.parse(text ?? '{}') as Job;
await using manager = await openCheckpointManager(uri);
const before = process.cpuUsage();
const start = performance.now();
const { sizeBytes } =
  action === 'save' ? await manager.save({ dir: directory }) : await manager.restore({ to: directory });
const wallMs = performance.now() - start;
const { user, system } = process.cpuUsage(before);
const { maxRSS } = process.resourceUsage();
process.stdout.write(
  `${JSON.stringify({ sizeBytes, wallMs, cpuMs: (user + system) / 1000, peakRssBytes: maxRSS * 1024 })}\n`,
);
