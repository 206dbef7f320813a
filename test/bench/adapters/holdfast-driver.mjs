/**
 * Holdfast through its public API, with one large file. It saves from memory or a file. It restores
 * into memory, or verifies and drops the bytes.
 */

import { openCheckpointManager, openStore } from '@holdfast/stores';
import { job, measure } from '../peers/driver.mjs';
import { NOWHERE } from '../peers/nowhere.mjs';
import { assertArrived, sourceMemory, targetMemory } from './memory.mjs';

const NAME = 'model.bin';
const memory =
  job.action === 'upload' ? sourceMemory() : job.action === 'download to memory' ? targetMemory() : null;

// The first store that is opened loads its adapter. Load it before measuring, because a user's SDK
// is loaded before the call too.
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
