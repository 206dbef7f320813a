/**
 * Whether a checkpoint on the disk belongs to what a rollback left behind. Saving it would make it
 * the latest again, and so undo the rollback.
 *
 * - It was last changed before the rollback. Files of the trainer keep the time at which they were
 *   written, so this also covers checkpoints that were never saved.
 * - Its files are those of a version that was left behind. This covers copies with newer times, and
 *   clocks that differ.
 */

import { crc32c } from '@holdfast/core';
import {
  CheckpointError,
  type CheckpointFile,
  checkpointName,
  type FoundFile,
  isCheckpointError,
  type RunManager,
  type SaveOptions,
} from '@holdfast/core/contract';
import { localFiles } from '@holdfast/local-files';
import type { RunView } from './run-view.ts';
import { type Entry, factsOf, type Tree } from './tree.ts';

const NS_PER_MS = 1e6;
const PIECE_BYTES = 4 * 1024 * 1024;

type Options = Pick<SaveOptions, 'exclude' | 'links' | 'writer' | 'signal'>;

/** Why the checkpoint is not saved. `null`: no rollback has left it behind. */
export async function leftBehindProblem(
  manager: RunManager,
  { leftBehind, rolledBackByMs }: RunView,
  { entry, tree, options }: { readonly entry: Entry; readonly tree: Tree; readonly options: Options },
): Promise<CheckpointError | null> {
  if (rolledBackByMs !== null && changedAtMs(tree) <= rolledBackByMs)
    return notSaved(entry, 'was last changed before the run was rolled back');
  for (const { id, version } of leftBehind) {
    if (version !== entry.version) continue;
    const files = await recordedFiles(manager, id, options);
    if (files !== null && (await haveSameContent(entry, files, options)))
      return notSaved(
        entry,
        `has the files of version ${checkpointName(id, true)}, which a rollback left behind`,
      );
  }
  return null;
}

function changedAtMs(tree: Tree): number {
  return Math.max(...[...tree.values()].map((state) => Number(factsOf(state).modifiedNs) / NS_PER_MS));
}

function notSaved({ path, version }: Entry, why: string): CheckpointError {
  const message = `${path} ${why}; remove it, or save it with "holdfast save" if it is wanted after all`;
  return new CheckpointError('Conflict', message, { context: { path, version } });
}

/** Files of this writer. `null`: the checkpoint was removed, or is quarantined. */
async function recordedFiles(
  manager: RunManager,
  { lineage, version }: { readonly lineage: number; readonly version: bigint },
  { writer, signal }: Options,
): Promise<readonly CheckpointFile[] | null> {
  try {
    await using checkpoint = await manager.get({ lineage, version }, { signal });
    if (checkpoint === null) return null;
    const { files } = await checkpoint.details({ signal });
    return files.filter((file) => file.writer === (writer?.index ?? 0));
  } catch (error) {
    if (isCheckpointError(error, 'NotFound')) return null;
    throw error;
  }
}

/**
 * Compares names, sizes and CRC32C. Reads the smallest files first: the next checkpoint of a
 * trainer has files of the same sizes, and mostly differs in a small one.
 */
async function haveSameContent(
  { path, name, isDirectory }: Entry,
  recorded: readonly CheckpointFile[],
  { exclude = [], links, signal }: Options,
): Promise<boolean> {
  const all = isDirectory
    ? (await localFiles.scan(path, { links, signal })).files
    : [await singleFile(path, name)];
  const known = new Map(recorded.map((file) => [file.name, file]));
  // An excluded file was not saved.
  const found = exclude.length === 0 ? all : all.filter((file) => known.has(file.name));
  const haveSameSizes = found.every((file) => known.get(file.name)?.sizeBytes === file.sizeBytes);
  if (found.length !== known.size || !haveSameSizes) return false;
  for (const file of found.toSorted((one, other) => one.sizeBytes - other.sizeBytes))
    if ((await checksumOf(file, signal)) !== known.get(file.name)?.crc32c) return false;
  return true;
}

async function singleFile(path: string, name: string): Promise<FoundFile> {
  const open = () => localFiles.openSource(path);
  const source = await open();
  await source.close();
  return { name, sizeBytes: source.sizeBytes, open };
}

async function checksumOf(file: FoundFile, signal: AbortSignal | undefined): Promise<number> {
  const source = await file.open();
  try {
    const buffer = new Uint8Array(Math.min(PIECE_BYTES, file.sizeBytes));
    let sum = 0;
    for (let at = 0; at < file.sizeBytes; at += PIECE_BYTES) {
      signal?.throwIfAborted();
      const piece = buffer.subarray(0, Math.min(PIECE_BYTES, file.sizeBytes - at));
      await source.readInto(at, piece);
      sum = crc32c(piece, sum);
    }
    return sum;
  } finally {
    await source.close();
  }
}
