/** Holdfast, through its public API: one large file from memory or from a file; back into memory, or verified and dropped. */

import { openCheckpointManager, openStore } from '@holdfast/stores';
import { job, measure } from '../peers/driver.mjs';
import { NOWHERE } from '../peers/nowhere.mjs';
import { assertArrived, sourceMemory, targetMemory } from './memory.mjs';

const NAME = 'model.bin';
const memory =
  job.action === 'upload' ? sourceMemory() : job.action === 'download to memory' ? targetMemory() : null;

// The adapter and what it needs are loaded when its first store is opened. A user's SDK is loaded by then, and so is ours.
await (await openStore(job.uri, process.env)).close();

async function inRun(work) {
  await using manager = await openCheckpointManager(job.uri, { env: process.env });
  await work(manager);
}

await measure({
  upload: () => inRun((manager) => manager.save({ buffers: { [NAME]: memory } })),
  'upload of a file': () => inRun((manager) => manager.save({ files: { [NAME]: job.filePath } })),
  download: () => inRun((manager) => manager.restore({ to: NOWHERE })),
  'download to memory': () => inRun((manager) => manager.restore({ to: { [NAME]: memory } })),
});
if (job.action === 'download to memory') assertArrived(memory);
