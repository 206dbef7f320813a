/**
 * Writes what one writer delivers: its receipt and, before that, lists of the files if they are too
 * many for a receipt.
 */

import type { CheckpointId, WriterPosition } from '../../contract/checkpoint-manager.ts';
import { CheckpointError, isCheckpointError } from '../../contract/errors.ts';
import { compareUtf8 } from '../../contract/object-key.ts';
import {
  decodeRecord,
  encodeRecord,
  type FileListRef,
  type FileRecord,
  fileListKey,
  type Receipt,
  receiptKey,
  sha256,
} from '../../format/index.ts';
import { annotationBeyond, isEmptyAnnotation } from '../../plan/annotation.ts';
import { fileListRef, sliceFiles } from '../../plan/file-lists.ts';
import { SameContent } from '../../plan/same-content.ts';
import {
  createRecord,
  type OwnReceipt,
  readAhead,
  readLists,
  type Said,
  withDeadline,
} from '../records/index.ts';
import type { RunContext } from '../run/index.ts';
import { type FinaliseOptions, finaliseOnce, outcomeUnknown } from './finalise.ts';

/** Each has about 1 MiB. */
const LISTS_AT_ONCE = 4;

/** What one writer delivers. `Required`: a field that is forgotten does not compile. */
export interface Delivery extends Required<Said> {
  readonly id: CheckpointId;
  readonly runId: string;
  readonly writer: WriterPosition;
  readonly incarnation: number;
  readonly files: readonly FileRecord[];
}

/**
 * Writes the receipt, or uses an existing one of this incarnation with the same content.
 * `Conflict`: the existing one has other content. `Fenced`: the receipt is there, but a later
 * incarnation of the writer has replaced this one.
 */
export async function deliver(run: RunContext, delivery: Delivery, signal: AbortSignal): Promise<OwnReceipt> {
  const { id, runId, writer: position, incarnation } = delivery;
  const files = [...delivery.files].sort((a, b) => compareUtf8(a.name, b.name));
  const slices = sliceFiles(files, run.recordLimits.filesBytesMax);
  const by = { id, writer: position.index, incarnation };
  // One field after the other: a spread would also copy members that the schema does not name, such
  // as those of a newer minor version, and write them.
  const receipt: Required<Receipt> = {
    format: undefined,
    ...by,
    worldSize: position.count,
    files: slices.length > 1 ? [] : files,
    fileLists: slices.length > 1 ? await writeLists(run, by, slices, signal) : [],
    bases: delivery.bases,
    metrics: delivery.metrics,
    metadata: delivery.metadata,
    suspicions: delivery.suspicions,
    taken: delivery.taken,
    directories: [...delivery.directories].sort((a, b) => compareUtf8(a.name, b.name)),
  };
  const { bytes, sha256: digest } = encodeRecord('receipt', receipt);
  const key = receiptKey(id, position.index, incarnation);
  // After an error the receipt may be there, and then the peers may commit it.
  const decides = (cause: unknown) =>
    outcomeUnknown(run, { id, runId, own: { key, sha256: digest } }, undefined, cause);
  const created = await bounded(run, 'writing the receipt', signal, (until) =>
    createRecord(run, key, bytes, until, decides),
  );
  const place = { key, position, incarnation };
  if (created.isOurs) return { ...place, sha256: digest, receipt, files, recordBytes: bytes.byteLength };
  const found = decodeRecord('receipt', created.bytes, { key, store: run.store.uri });
  const recordBytes = created.bytes.byteLength;
  const own = { ...place, sha256: sha256(created.bytes), receipt: found, recordBytes };
  // This incarnation has delivered this version before. The same content is accepted; other content
  // cannot replace it.
  const content = new SameContent(files, delivery.directories);
  const isSame = await hasContent(run, found, content, signal).catch((error: unknown) =>
    throwDecision(run, { id, runId, own, signal }, error),
  );
  if (isSame) {
    if (!isEmptyAnnotation(annotationBeyond(found, delivery)))
      run.logger.log('warn', otherMetaText(delivery));
    return own;
  }
  throw new CheckpointError(
    'Conflict',
    `writer ${position.index} has already delivered version ${id.version}, with other content`,
    { context: { store: run.store.uri, key, version: id.version, writer: position.index } },
  );
}

/** The existing receipt cannot be replaced, because other processes may have committed it. */
function otherMetaText({ writer, id }: Delivery): string {
  const which = `writer ${writer.index} delivered version ${id.version} before, with other metrics or metadata`;
  return `${which}: the former stay; use \`annotate\` to record others once the version is committed`;
}

/**
 * Each list is durable when its reference is returned. An existing list has the same bytes, because
 * its key contains their digest.
 */
async function writeLists(
  run: RunContext,
  by: Pick<Receipt, 'id' | 'writer' | 'incarnation'>,
  slices: readonly (readonly FileRecord[])[],
  signal: AbortSignal,
): Promise<FileListRef[]> {
  const refs: FileListRef[] = [];
  const at = { count: LISTS_AT_ONCE, signal };
  const written = readAhead(slices, at, async (files, until) => {
    const { bytes, sha256: digest } = encodeRecord('file-list', { format: undefined, ...by, files });
    const key = fileListKey(by, digest);
    const created = await bounded(run, 'writing a list of files', until, (limit) =>
      createRecord(run, key, bytes, limit),
    );
    if (created.isOurs) return fileListRef(files, digest);
    throw new CheckpointError('Corrupt', `${key} has bytes that do not match its name`, {
      context: { store: run.store.uri, key, version: by.id.version },
    });
  });
  for await (const ref of written) refs.push(ref);
  return refs;
}

function bounded<T>(
  { clock, settings }: RunContext,
  what: string,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return withDeadline({ clock, timeoutMs: settings.recordTimeoutMs, what, signal }, work);
}

/**
 * Explains why the file lists of a receipt cannot be read. Once the checkpoint is decided without
 * the receipt, a sweep deletes them. Throws that decision if there is one, else `error`.
 */
async function throwDecision(
  run: RunContext,
  look: Pick<FinaliseOptions, 'id' | 'runId' | 'own' | 'signal'>,
  error: unknown,
): Promise<never> {
  if (isCheckpointError(error, 'Corrupt'))
    await finaliseOnce(run, { ...look, timeoutMs: 0, onProgress: undefined, look: 'catalog' });
  throw error;
}

async function hasContent(
  run: RunContext,
  receipt: Receipt,
  content: SameContent,
  signal: AbortSignal,
): Promise<boolean> {
  content.compareDirectories(receipt.directories);
  for await (const slice of readLists(run, [receipt], { signal })) content.compare(slice.files);
  return content.isSame;
}
