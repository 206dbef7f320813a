/** Reads one version: its records, its tensors, its difference to another one. */

import {
  CheckpointError,
  type CheckpointReference,
  type DiffResult,
  type InspectResult,
  type RunManager,
} from '@holdfast/core/contract';
import type { DiffView, FileRow, TensorsView, VersionView, WriterRow } from './api.ts';
import { eventRow, rowId, versionRow } from './rows.ts';

/** A checkpoint may have a million files. */
const FILES_MAX = 2000;
const TENSORS_MAX = 2000;

interface ReadOptions {
  readonly signal: AbortSignal;
}

/** `NotFound`: there is no such version. One to three reads, and some more for its commit. */
export async function readVersion(
  manager: RunManager,
  reference: CheckpointReference,
  { signal }: ReadOptions,
): Promise<Omit<VersionView, 'clockDifferenceMs'>> {
  const checkpoint = await manager.get(reference, { signal });
  if (checkpoint === null)
    throw new CheckpointError('NotFound', 'there is no such version, or it was removed');
  const details = await checkpoint.details({ signal });
  // The entry may be deleted or damaged; everything else is still known.
  const [entry] = await manager.admin.log({ commitOf: details.id, signal }).catch(() => []);
  const byWriter = Map.groupBy(details.files, ({ writer }) => writer);
  const writers = details.writers.map(
    ({ writer, consistency, takenAtMs }): WriterRow => ({
      writer,
      fileCount: byWriter.get(writer)?.length ?? 0,
      sizeBytes: (byWriter.get(writer) ?? []).reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
      consistency,
      takenAtMs,
    }),
  );
  const files = details.files.slice(0, FILES_MAX).map(
    ({ name, sizeBytes, crc32c, writer, key }): FileRow => ({
      ...{ name, sizeBytes, writer, key },
      crc32c: crc32c.toString(16).padStart(8, '0'),
    }),
  );
  return {
    row: versionRow(details, undefined),
    metadata: details.metadata,
    manifestKey: details.manifestKey,
    bases: details.bases.slice(0, 20).map(rowId),
    writers,
    files,
    fileCount: details.files.length,
    commit: entry === undefined ? null : eventRow(entry),
  };
}

/** Reads the headers of files that hold tensors. */
export async function readTensors(
  manager: RunManager,
  reference: CheckpointReference,
  { signal }: ReadOptions,
): Promise<TensorsView> {
  return tensorsView(await manager.admin.inspect({ version: reference, signal }));
}

export function tensorsView({ files, bytesRead }: Pick<InspectResult, 'files' | 'bytesRead'>): TensorsView {
  const tensors = files.flatMap((file) =>
    (file.tensors ?? []).map(({ name, dtype, shape, sizeBytes }) => ({
      file: file.name,
      name,
      dtype,
      shape,
      sizeBytes,
    })),
  );
  const dtypes = Map.groupBy(tensors, ({ dtype }) => dtype);
  return {
    tensorCount: tensors.length,
    sizeBytes: tensors.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    bytesRead,
    dtypes: [...dtypes].map(([dtype, all]) => ({
      dtype,
      count: all.length,
      sizeBytes: all.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    })),
    histogram: histogramOf(tensors.map(({ sizeBytes }) => sizeBytes)),
    largest: tensors.toSorted((a, b) => b.sizeBytes - a.sizeBytes).slice(0, TENSORS_MAX),
    notes: files
      .filter(({ note }) => note !== '')
      .map(({ name, note }) => `${name}: ${note}`)
      .slice(0, 20),
  };
}

/** One bin for each power of two between the smallest and the largest. */
function histogramOf(sizes: readonly number[]): TensorsView['histogram'] {
  if (sizes.length === 0) return [];
  const powerOf = (size: number) => (size === 0 ? 0 : Math.floor(Math.log2(size)) + 1);
  const powers = sizes.map(powerOf);
  const first = powers.reduce((a, b) => Math.min(a, b));
  const last = powers.reduce((a, b) => Math.max(a, b));
  const counts = Array.from({ length: last - first + 1 }, () => 0);
  for (const power of powers) counts[power - first] = (counts[power - first] ?? 0) + 1;
  return counts.map((count, index) => {
    const power = first + index;
    return { fromBytes: power === 0 ? 0 : 2 ** (power - 1), toBytes: 2 ** power, count };
  });
}

/** From the records, and the headers of files that hold tensors. No other payload is read. */
export async function readDiff(
  manager: RunManager,
  { before, after }: { readonly before: CheckpointReference; readonly after: CheckpointReference },
  { signal }: ReadOptions,
): Promise<DiffView> {
  return diffView(await manager.admin.diff(before, after, { signal }));
}

export function diffView({ before, after, files, bytesRead }: DiffResult): DiffView {
  const counts = { same: 0, changed: 0, added: 0, removed: 0 };
  for (const { change } of files) counts[change] += 1;
  return {
    before: rowId(before),
    after: rowId(after),
    counts,
    bytesRead,
    files: files
      .filter(({ change }) => change !== 'same')
      .slice(0, FILES_MAX)
      .map(({ name, change, beforeBytes, afterBytes, tensors, note }) => ({
        ...{ name, change, beforeBytes, afterBytes, note },
        tensors: (tensors ?? [])
          .filter(
            (tensor) =>
              tensor.change === 'added' || tensor.change === 'removed' || tensor.change === 'reshaped',
          )
          .slice(0, 100)
          .map((tensor) => `${tensor.name} ${tensor.change}`),
      })),
  };
}
