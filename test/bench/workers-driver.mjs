/**
 * Saves a directory as often as asked and prints the cost of the last save. JavaScript, as a user's
 * compiled program is. With `writer`, as that one of `attempt` and with `version`. With `restoreTo`
 * instead, restores the latest checkpoint there and prints the cost of that.
 */

import { openCheckpointManager, registerStore } from '@holdfast/stores';
import { openDropStore } from './drop-store.mjs';

const job = JSON.parse(process.argv[2] ?? '{}');
const { uri, directory, saveCount, attempt, writer, version, restoreTo, ...settings } = job;

registerStore('drop', { form: 'drop://name', open: openDropStore });

async function main() {
  await using manager = await openCheckpointManager(uri, { env: process.env, settings, attempt, writer });
  const measured = () =>
    restoreTo === undefined ? manager.save({ dir: directory, version }) : manager.restore({ to: restoreTo });
  for (let count = 1; count < saveCount; count++) await measured();
  const [before, mainBefore] = [process.cpuUsage(), process.threadCpuUsage()];
  const start = performance.now();
  await measured();
  const wallMs = performance.now() - start;
  const msOf = ({ user, system }) => (user + system) / 1000;
  const cost = { wallMs, cpuMs: msOf(process.cpuUsage(before)) };
  const mainCpuMs = msOf(process.threadCpuUsage(mainBefore));
  console.log(JSON.stringify({ ...cost, mainCpuMs, peakRssBytes: process.resourceUsage().maxRSS * 1024 }));
}

await main();
