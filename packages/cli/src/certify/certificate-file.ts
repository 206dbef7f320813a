/** The file that keeps a certificate. */

import { stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { CheckpointError, type ErrorCode, type RestoreTarget } from '@holdfast/core/contract';

export interface CertificateFile {
  readonly path: string;
  /** A file that is there already may go. */
  readonly replaces: boolean;
}

/**
 * Says at once what would keep the certificate from being written after minutes of work:
 * `TargetExists`, `InvalidArgument`.
 */
export async function assertWritable({ path, replaces }: CertificateFile): Promise<void> {
  await assertPlace(path);
  const target = await openFile({ path, replaces });
  await target.discard();
}

async function openFile({ path, replaces }: CertificateFile): Promise<RestoreTarget> {
  // Only now, so that `--help` and `--version` do not wait for it.
  const { openTargetFile } = await import('@holdfast/local-files');
  return openTargetFile(path, { replace: replaces });
}

async function assertPlace(path: string): Promise<void> {
  const found = await stat(path).catch(() => null);
  if (found?.isDirectory()) throw refusal('InvalidArgument', path, 'is a directory');
  const parent = await stat(dirname(path)).catch(() => null);
  if (parent?.isDirectory() !== true)
    throw refusal('InvalidArgument', path, 'is to be in a directory that is not there');
}

/** Puts it there whole; a file that is there stays as it is until then, or for good. */
export async function writeCertificate({ path, replaces }: CertificateFile, text: string): Promise<void> {
  await assertPlace(path); // it may have vanished meanwhile
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
  const advice = ['choose a place for the certificate that can be written'];
  return new CheckpointError(code, `${path} ${what}`, { context: { path, advice } });
}
