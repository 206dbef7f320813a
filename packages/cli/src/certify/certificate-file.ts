/** The file that keeps a certificate. */

import { randomBytes } from 'node:crypto';
import { rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { CheckpointError, type ErrorCode } from '@holdfast/core/contract';

export interface CertificateFile {
  readonly path: string;
  /** A file that is there already may go. */
  readonly replaces: boolean;
}

/** Says at once what would keep the certificate from being written after minutes of work: `TargetExists`, `InvalidArgument`. */
export async function assertWritable({ path, replaces }: CertificateFile): Promise<void> {
  const found = await stat(path).catch(() => null);
  if (found?.isDirectory()) throw refusal('InvalidArgument', path, 'is a directory');
  if (found !== null && !replaces) throw exists(path);
  const parent = await stat(dirname(path)).catch(() => null);
  if (parent?.isDirectory() !== true)
    throw refusal('InvalidArgument', path, 'is to be in a directory that is not there');
}

/** Puts it there whole; a file that is there stays as it is until then, or for good. */
export async function writeCertificate({ path, replaces }: CertificateFile, text: string): Promise<void> {
  const written = replaces ? `${path}.${randomBytes(6).toString('hex')}.tmp` : path;
  try {
    await writeFile(written, text, { flag: 'wx' });
    if (written !== path) await rename(written, path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'EEXIST') await rm(written, { force: true }).catch(() => undefined); // the first error counts
    throw fileError(error as NodeJS.ErrnoException, path);
  }
}

const CODES: Readonly<Record<string, ErrorCode>> = {
  EACCES: 'Denied',
  EPERM: 'Denied',
  EROFS: 'ReadOnly',
  ENOSPC: 'StorageFull',
  EDQUOT: 'StorageFull',
  ENOENT: 'InvalidArgument',
  ENOTDIR: 'InvalidArgument',
};

function fileError(error: NodeJS.ErrnoException, path: string): CheckpointError {
  if (error.code === 'EEXIST') return exists(path);
  return refusal(CODES[error.code ?? ''] ?? 'Unexpected', path, `cannot be written: ${error.message}`, error);
}

function exists(path: string): CheckpointError {
  const advice = ['name another file, or pass --replace'];
  return new CheckpointError('TargetExists', `${path} exists already`, { context: { path, advice } });
}

function refusal(code: ErrorCode, path: string, what: string, cause?: unknown): CheckpointError {
  const advice = ['choose a place for the certificate that can be written'];
  return new CheckpointError(code, `${path} ${what}`, { context: { path, advice }, cause });
}
