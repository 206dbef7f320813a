/**
 * Holdfast through its public API: a run of one writer, saved and restored. This driver is
 * JavaScript, as a user's compiled program is.
 */

import { openCheckpointManager } from '@holdfast/stores';
import { job, measure } from './driver.mjs';
import { NOWHERE } from './nowhere.mjs';

function openRun() {
  const { endpoint, region, bucket, prefix, ca } = job;
  const query = new URLSearchParams({ endpoint, region, ...(ca !== null && { ca }) });
  return openCheckpointManager(`s3://${bucket}/${prefix.replace(/\/$/, '')}?${query}`, { env: process.env });
}

async function upload() {
  await using manager = await openRun();
  await manager.save({ dir: job.directory });
}

async function download() {
  await using manager = await openRun();
  const only = job.only === null ? undefined : [job.only];
  await manager.restore({ to: job.toNowhere ? NOWHERE : job.directory, only });
}

await measure({ upload, download });
