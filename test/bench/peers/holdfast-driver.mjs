/**
 * Holdfast through its public API: a run of one writer, saved and restored. This driver is
 * JavaScript, as a user's compiled program is.
 */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
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

async function range() {
  await using manager = await openRun();
  const [startBytes, endBytes] = job.range;
  const checkpoint = await manager.latest();
  const bytes = checkpoint.openInputStream(job.only, {
    offsetBytes: startBytes,
    lengthBytes: endBytes - startBytes,
  });
  await writeFile(join(job.directory, job.only), bytes);
}

await measure({ upload, download, range });
