/** Uploads that survive their process: taking one over, and listing them. */

import { assertObjectKey, type CheckpointError, type OpenUpload } from '@holdfast/core/contract';
import type { FileSystem } from '@holdfast/local-files';
import { objectError, type StoreSubject } from './errors.ts';
import { handleOf, type LocalToken } from './upload.ts';
import type { UploadNotes } from './upload-notes.ts';
import type { ObjectWriter, TemporaryFile } from './writer.ts';

/** Unit of `stats.blocks`, on every system. */
const BLOCK_BYTES = 512n;

export interface ResumeParts {
  readonly uri: string;
  readonly notes: UploadNotes;
  readonly writer: ObjectWriter;
  readonly fileSystem: FileSystem;
  /** Directory of the temporary files. */
  readonly directory: string;
}

/** Throws `InvalidArgument` if it is not a token of a local store. */
export function parseToken(
  uri: string,
  text: string,
  isPartSize: (sizeBytes: number) => boolean,
): LocalToken {
  try {
    const { key, partSizeBytes, file } = (JSON.parse(text) ?? {}) as Partial<LocalToken>;
    const isToken =
      typeof key === 'string' &&
      typeof partSizeBytes === 'number' &&
      isPartSize(partSizeBytes) &&
      typeof file === 'string' &&
      /^[0-9a-f]{24}-\d{1,15}$/.test(file);
    if (isToken) {
      assertObjectKey(key, uri);
      return { key, partSizeBytes, file };
    }
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  const what = 'cannot resume an upload with this token: it is not from this store';
  throw objectError('InvalidArgument', { store: uri }, what);
}

/**
 * Claims the file of an upload for this process. Throws `NotFound` if the upload has ended, or if
 * another process may still write to it.
 */
export async function takeOver(parts: ResumeParts, { key, file }: LocalToken): Promise<TemporaryFile> {
  const { uri, notes, writer } = parts;
  await handleOf(file, parts)?.letGo();
  const obstacle = await notes.claim(file);
  if (obstacle !== null) throw gone({ store: uri, key }, obstacle);
  const temporary = await writer.reopenTemporary(file).catch(async (error: unknown) => {
    await notes.free(file).catch(() => undefined);
    throw error;
  });
  if (temporary !== null) return temporary;
  await notes.remove(file).catch(() => undefined);
  throw gone({ store: uri, key }, 'it is completed');
}

export async function openUploads(
  { notes, fileSystem, directory }: ResumeParts,
  prefix: string,
): Promise<OpenUpload[]> {
  const noted = (await notes.list()).filter(({ note }) => note.key.startsWith(prefix));
  const uploads: OpenUpload[] = [];
  for (const { file, note } of noted) {
    const { key, partSizeBytes, beganAtMs } = note;
    const stats = await fileSystem.lstat(`${directory}/${file}`).catch(() => null);
    // A file with a second name is already an object.
    if (stats === null || stats.nlink !== 1n) continue;
    const token = JSON.stringify({ key, partSizeBytes, file } satisfies LocalToken);
    // Missing parts are holes in the file.
    const takenBytes = stats.blocks * BLOCK_BYTES;
    const sizeBytes = Number(takenBytes < stats.size ? takenBytes : stats.size);
    uploads.push({ key, token, beganAtMs, sizeBytes });
  }
  return uploads;
}

function gone(subject: StoreSubject, why: string): CheckpointError {
  return objectError('NotFound', subject, `has no upload that can be resumed: ${why}`);
}
