/** Restores a model of ElasticDL: one server's shard, or the whole model as one file. */

import type { RunManager } from '@holdfast/core';
import type { ReadingOptions, ShardSet } from '@holdfast/elasticdl';
import { localFiles } from '@holdfast/local-files';
import { numberOf, type RestoreRequest, type RestoreView } from '../api/shapes.ts';
import { findCheckpoint } from './held-checkpoints.ts';

/** For ids and rows, besides the byte budget of the agent. One restore at a time has it. */
const BUFFER_BYTES = 64 * 1024 * 1024;

type Restored = Pick<RestoreView, 'version' | 'fileCount' | 'sizeBytes' | 'suspicions'>;

let lastEnded: Promise<unknown> = Promise.resolve();

/** All servers of a node may ask at once. */
export function restoreShards(
  manager: RunManager,
  request: RestoreRequest,
  signal: AbortSignal,
): Promise<Restored> {
  const restored = lastEnded.then(() => restore(manager, request, signal));
  lastEnded = restored.catch(() => undefined);
  return restored;
}

async function restore(
  manager: RunManager,
  { uri, version, lineage, manifestKey, ...request }: RestoreRequest,
  signal: AbortSignal,
): Promise<Restored> {
  signal.throwIfAborted();
  // Loaded here, so that the start of an agent does not wait for it.
  const elasticdl = await import('@holdfast/elasticdl');
  const wanted = { uri, version: String(version), lineage: numberOf(lineage), manifestKey };
  const checkpoint = await findCheckpoint(manager, wanted);
  const suspicions: string[] = [];
  await using set = await elasticdl.openCheckpointShards(checkpoint, { signal });
  const onSuspicion = (reason: string) => void suspicions.push(reason);
  const reading = { bufferBytes: BUFFER_BYTES, signal, onSuspicion };
  const written = await write(elasticdl, set, request, reading);
  return { version: String(checkpoint.version), suspicions, ...written };
}

async function write(
  { repartition, exportSafetensors }: typeof import('@holdfast/elasticdl'),
  set: ShardSet,
  { to, replace, shard }: Pick<RestoreRequest, 'to' | 'replace' | 'shard'>,
  reading: ReadingOptions,
): Promise<Pick<RestoreView, 'fileCount' | 'sizeBytes'>> {
  if (!shard) {
    const { sizeBytes } = await exportSafetensors(set, to, { ...reading, replace: replace !== false });
    return { fileCount: 2, sizeBytes };
  }
  const target = await localFiles.openTarget(to, { replace, signal: reading.signal });
  const { files } = await repartition(set, target, { ...reading, ...shard });
  return { fileCount: files.length, sizeBytes: files.reduce((sum, file) => sum + file.sizeBytes, 0) };
}
