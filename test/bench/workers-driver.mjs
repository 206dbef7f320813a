/**
 * Saves a directory as often as asked and prints the cost of the last save. JavaScript, as a user's
 * compiled program is. With `writer`, as that one of `attempt` and with `version`.
 */

import { openCheckpointManager, registerStore } from '@holdfast/stores';
import { openDropStore } from './drop-store.mjs';

const { uri, directory, workers, saveCount, attempt, writer, version } = JSON.parse(process.argv[2] ?? '{}');

registerStore('drop', { form: 'drop://name', open: openDropStore });

async function main() {
  const settings = workers === undefined ? {} : { workers };
  await using manager = await openCheckpointManager(uri, { env: process.env, settings, attempt, writer });
  for (let count = 1; count < saveCount; count++) await manager.save({ dir: directory, version });
  const [before, mainBefore] = [process.cpuUsage(), process.threadCpuUsage()];
  const start = performance.now();
  await manager.save({ dir: directory, version });
  const wallMs = performance.now() - start;
  const msOf = ({ user, system }) => (user + system) / 1000;
  const cost = { wallMs, cpuMs: msOf(process.cpuUsage(before)) };
  const mainCpuMs = msOf(process.threadCpuUsage(mainBefore));
  console.log(JSON.stringify({ ...cost, mainCpuMs, peakRssBytes: process.resourceUsage().maxRSS * 1024 }));
}

await main();
