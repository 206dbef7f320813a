/** Writes the result of a command to a file that a person has named. */

import { stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { CheckpointError, type ErrorCode, type RestoreTarget } from '@holdfast/core/contract';

export interface TextFile {
  readonly path: string;
  /** An existing file may be replaced. */
  readonly replaces: boolean;
}

/**
 * Finds at once what would prevent writing the file after minutes of work. Throws `TargetExists` or
 * `InvalidArgument`, also if the file would lie in a run.
 */
export async function assertWritable({ path, replaces }: TextFile): Promise<void> {
  await assertPlace(path);
  const target = await openFile({ path, replaces });
  await target.discard();
}

async function openFile({ path, replaces }: TextFile): Promise<RestoreTarget> {
  // Loaded here, so that `--help` and `--version` do not wait for it.
  const { openTargetFile } = await import('@holdfast/local-files');
  return openTargetFile(path, { replace: replaces });
}

async function assertPlace(path: string): Promise<void> {
  const found = await stat(path).catch(() => null);
  if (found?.isDirectory()) throw refusal('InvalidArgument', path, 'is a directory');
  const parent = await stat(dirname(path)).catch(() => null);
  if (parent?.isDirectory() !== true)
    throw refusal('InvalidArgument', path, 'lies in a directory that does not exist');
}

/**
 * Writes the file atomically. Errors as those of `assertWritable`. An existing file stays until
 * then, or for good on failure.
 */
export async function writeTextFile({ path, replaces }: TextFile, text: string): Promise<void> {
  await assertPlace(path); // It may have vanished meanwhile.
  const bytes = new TextEncoder().encode(text);
  const target = await openFile({ path, replaces });
  try {
    const sink = await target.open({ name: path, sizeBytes: bytes.byteLength });
    await sink.writeAt(0, bytes);
    await sink.close();
    await target.publish();
  } catch (error) {
    await target.discard();
    throw error;
  }
}

function refusal(code: ErrorCode, path: string, what: string): CheckpointError {
  const advice = ['name a file that can be written'];
  return new CheckpointError(code, `${path} ${what}`, { context: { path, advice } });
}
