/** Holdfast, through its public API: a run of one writer, saved and restored. */

import type { RestoreTarget } from '@holdfast/core/contract';
import { openCheckpointManager } from '@holdfast/stores';
import type { Job } from '../s3/peers.ts';

const { action, directory, endpoint, region, bucket, prefix, ca, toNowhere } = JSON.parse(
  process.argv[2] ?? '{}',
) as Job;

/** Takes verified bytes and drops them: what is left is the cost of fetching. */
const NOWHERE: RestoreTarget = {
  open: async () => ({ writeAt: async () => undefined, close: async () => undefined }),
  publish: async () => undefined,
  discard: async () => undefined,
};

function runUri(): string {
  const query = new URLSearchParams({ endpoint, region, ...(ca !== null && { ca }) });
  return `s3://${bucket}/${prefix.replace(/\/$/, '')}?${query}`;
}

const before = process.cpuUsage();
const start = performance.now();
{
  await using manager = await openCheckpointManager(runUri(), { env: process.env });
  if (action === 'upload') await manager.save({ dir: directory });
  else await manager.restore({ to: toNowhere ? NOWHERE : directory });
}
const callMs = performance.now() - start;
const { user, system } = process.cpuUsage(before);
console.log(JSON.stringify({ callMs, callCpuMs: (user + system) / 1000 }));
