/** Reads the manifest of a checkpoint. */

import type {
  CheckpointDetails,
  CheckpointId,
  CheckpointSummary,
  WriterState,
} from '../../contract/checkpoint-manager.ts';
import { CheckpointError } from '../../contract/errors.ts';
import { jsonReady } from '../../contract/json.ts';
import { compareUtf8 } from '../../contract/object-key.ts';
import {
  type CatalogCheckpoint,
  checkLogicalNames,
  decodeRecord,
  idEquals,
  idText,
  type Manifest,
  receiptKey,
  type State,
  type Taken,
} from '../../format/index.ts';
import { Union } from '../../plan/assemble.ts';
import { refersToReceipts } from '../../plan/file-lists.ts';
import { stateNameOf } from '../../plan/state.ts';
import { totalBytes } from '../../plan/stored-file.ts';
import type { RunParts } from './parts.ts';
import { getByDigest } from './records.ts';
import { readSlices } from './slices.ts';

/**
 * Reads and checks a manifest: digest, identity, and the file names if it holds them. One GET.
 * Throws `Corrupt` with the problem.
 */
export async function readManifest(
  run: RunParts,
  checkpoint: CatalogCheckpoint,
  signal: AbortSignal | undefined,
): Promise<Manifest> {
  const { manifestKey: key, manifestSha256 } = checkpoint;
  const { id } = checkpoint;
  const bytes = await getByDigest(run, key, manifestSha256, signal);
  const manifest = decodeRecord('manifest', bytes, { key, store: run.store.uri });
  const problem = manifestProblem(manifest, id) ?? sizeProblem(manifest, checkpoint);
  if (!problem) return manifest;
  throw new CheckpointError('Corrupt', `${key} cannot be used: ${problem}`, {
    context: { store: run.store.uri, key, version: id.version },
  });
}

/**
 * Why an intact manifest cannot be used for checkpoint `id`; `undefined`: it can. If the manifest
 * refers to receipts, their files are checked when they are read.
 */
export function manifestProblem(manifest: Manifest, id: CheckpointId): string | undefined {
  const { worldSize, receipts, writers } = manifest;
  if (!idEquals(manifest.id, id)) return `it is of checkpoint ${idText(manifest.id)}, not ${idText(id)}`;
  if (refersToReceipts(manifest)) {
    return receipts.length === worldSize ? undefined : `it has ${receipts.length} receipts of ${worldSize}`;
  }
  if (writers.length !== worldSize) return `it has the files of ${writers.length} writers of ${worldSize}`;
  const misplaced = writers.findIndex(({ writer, incarnation, receiptKey: key }, index) => {
    return writer !== index || key !== receiptKey(id, writer, incarnation);
  });
  if (misplaced >= 0) return `the entry of writer ${misplaced} is not from its receipt`;
  try {
    checkLogicalNames(
      writers.flatMap(({ files }) => files.map(({ name }) => name)),
      writers.flatMap(({ directories }) => directories.map(({ name }) => name)),
    );
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/**
 * The catalog repeats the totals of a manifest. They must agree, because people and retention use
 * the catalog's.
 */
function sizeProblem(
  { writers, receipts }: Manifest,
  { fileCount, sizeBytes }: CatalogCheckpoint,
): string | undefined {
  const parts = [
    ...receipts,
    ...writers.map(({ files }) => ({ fileCount: files.length, sizeBytes: totalBytes(files) })),
  ];
  const foundCount = parts.reduce((sum, part) => sum + part.fileCount, 0);
  const foundBytes = totalBytes(parts);
  if (foundCount === fileCount && foundBytes === sizeBytes) return undefined;
  return `it lists ${foundCount} files of ${foundBytes} bytes, and the catalog says ${fileCount} of ${sizeBytes}`;
}

/** `storeNowMs`: by the store's clock. */
export function summaryOf(
  state: State,
  checkpoint: CatalogCheckpoint,
  storeNowMs: number,
): CheckpointSummary {
  const { id } = checkpoint;
  const graceUntilMs = checkpoint.state === 'RETIRING' ? checkpoint.retiringAtMs + checkpoint.graceMs : null;
  return jsonReady({
    id,
    version: id.version,
    manifestKey: checkpoint.manifestKey,
    sizeBytes: checkpoint.sizeBytes,
    storedBytes: checkpoint.storedBytes,
    bases: checkpoint.bases,
    fileCount: checkpoint.fileCount,
    metrics: checkpoint.metrics,
    state: stateNameOf(checkpoint),
    isLatest: state.latest !== undefined && idEquals(state.latest, id),
    pins: checkpoint.pins,
    isVerified: checkpoint.verified,
    isSuspect: checkpoint.suspect,
    isLeftBehind: checkpoint.rolledBack,
    reason: checkpoint.reason,
    committedAtMs: checkpoint.committedAtMs,
    graceUntilMs,
    graceLeftMs: graceUntilMs === null ? null : Math.max(0, graceUntilMs - storeNowMs),
  });
}

/** All that the records say about a checkpoint. Costs what `readSlices` does. */
export async function readDetails(
  run: RunParts,
  { checkpoint, manifest }: { readonly checkpoint: CatalogCheckpoint; readonly manifest: Manifest },
  summary: CheckpointSummary,
  signal: AbortSignal | undefined,
): Promise<CheckpointDetails> {
  const union = new Union();
  const writers: WriterState[] = [];
  const files: CheckpointDetails['files'][number][] = [];
  const directories = new Set<string>();
  for await (const { writer, said, isFirst, files: more } of readSlices(run, manifest, { signal })) {
    if (isFirst) {
      union.add(said);
      writers.push(writerState(writer, said.taken));
      for (const { name } of said.directories) directories.add(name);
    }
    for (const { name, sizeBytes, crc32c, key, mtimeMs } of more)
      files.push({ name, sizeBytes, crc32c, writer, key, mtimeMs: mtimeMs === 0 ? null : mtimeMs });
  }
  const { worldSize } = manifest;
  const metadata = Object.assign(union.metadata, checkpoint.annotatedMetadata);
  // Files hold no bigint, and there may be a million of them, so only the rest is converted.
  return Object.assign(jsonReady({ ...summary, worldSize, writers, metadata }), {
    files,
    directories: [...directories].sort(compareUtf8),
  });
}

const CONSISTENCIES = { CONSISTENCY_UNSPECIFIED: null, PAUSED: 'paused', POLLUTED: 'polluted' } as const;

function writerState(writer: number, taken: Taken | undefined): WriterState {
  if (!taken) return { writer, consistency: null, stateVersion: null, takenAtMs: null };
  const { consistency, stateVersion, takenAtMs } = taken;
  return { writer, consistency: CONSISTENCIES[consistency], stateVersion, takenAtMs };
}
