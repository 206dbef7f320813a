/** Reads a committed checkpoint file by file, to copy it or to compare it with a copy. */

import { CheckpointError, isCheckpointError } from '../../contract/errors.ts';
import type { CatalogCheckpoint, Manifest } from '../../format/index.ts';
import { Content } from '../../plan/mirror.ts';
import { readManifest, readNamedSlices, type Slice } from '../records/index.ts';
import type { RunContext } from '../run/index.ts';

/** A committed checkpoint: its manifest, and its files a few at a time. */
export interface CommittedFiles {
  readonly manifest: Manifest;
  slices(signal: AbortSignal): AsyncIterable<Slice>;
}

export async function readCommitted(
  run: RunContext,
  checkpoint: CatalogCheckpoint,
  signal: AbortSignal,
): Promise<CommittedFiles> {
  const manifest = await readManifest(run, checkpoint, signal);
  return { manifest, slices: (until) => readNamedSlices(run, manifest, { signal: until }) };
}

/**
 * Reads a checkpoint of the run that is copied from. If its records are damaged, the context of
 * `Corrupt` has `lent`: the damage is in that run, not in this one.
 */
export async function readOriginal(
  run: RunContext,
  checkpoint: CatalogCheckpoint,
  signal: AbortSignal,
): Promise<CommittedFiles> {
  try {
    const { manifest, slices } = await readCommitted(run, checkpoint, signal);
    return { manifest, slices: (until) => asLent(slices(until)) };
  } catch (error) {
    throw lentError(error);
  }
}

async function* asLent(slices: AsyncIterable<Slice>): AsyncGenerator<Slice, void, void> {
  try {
    yield* slices;
  } catch (error) {
    throw lentError(error);
  }
}

function lentError(error: unknown): unknown {
  if (!isCheckpointError(error, 'Corrupt')) return error;
  const context = { ...error.context, lent: true };
  return new CheckpointError('Corrupt', error.message, { context, cause: error.cause });
}

/** The content of a checkpoint, as far as a reader can see it. */
export async function contentOf({ manifest, slices }: CommittedFiles, signal: AbortSignal): Promise<Content> {
  const content = new Content(manifest.worldSize);
  for await (const { writer, said, files } of slices(signal)) content.add(writer, said, files);
  return content;
}
