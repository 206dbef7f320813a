/** `save()` in one call. */

import type {
  CheckpointId,
  SaveOptions,
  SaveResult,
  WriterPosition,
} from '../../contract/checkpoint-manager.ts';
import { CheckpointError, isCheckpointError } from '../../contract/errors.ts';
import {
  type CatalogCheckpoint,
  type DirectoryRecord,
  type FileRecord,
  toVersion,
} from '../../format/index.ts';
import { type Annotation, annotationBeyond, isEmptyAnnotation } from '../../plan/annotation.ts';
import { SameContent } from '../../plan/same-content.ts';
import { checkGlobs } from '../../plan/staleness.ts';
import { findByVersion, isPastAttempt } from '../../plan/state.ts';
import { totalBytes } from '../../plan/stored-file.ts';
import type { UploadedFile } from '../../transfer/index.ts';
import { fencedAttempt, recordAnnotation } from '../commit/index.ts';
import { readManifest, readSaid, readSlices } from '../records/index.ts';
import { checkMeta, plannedEvent, type RunContext, transferOptions, unlessRemoved } from '../run/index.ts';
import { Capture, checkCapture } from './capture.ts';
import { SaveSession } from './session.ts';
import { resolveSources } from './sources.ts';
import { assertVersionNamed, type WriterRegistry } from './writers.ts';

type Bounded<T> = T & { signal: AbortSignal };

export async function save(
  run: RunContext,
  writers: WriterRegistry,
  options: Bounded<SaveOptions>,
): Promise<SaveResult> {
  // All arguments are checked before the store is used.
  const writer = writers.position(options.writer);
  const meta = checkMeta(options);
  const version = options.version === undefined ? undefined : toVersion(options.version);
  checkGlobs(options.shouldChange ?? []);
  checkCapture(options, version);
  assertVersionNamed(version, writer);
  writers.attempt(writer);
  const sources = await resolveSources(run, options);
  const { directories } = sources;
  const capture = new Capture(run, sources, options);
  try {
    if (options.staging)
      await run.meter.measure('stage', { uri: run.store.uri, version, writer }, () => capture.stage(version));
    const call = { version, writer, meta, capture, directories, options };
    const begun = await begin(run, writers, call);
    if (!(begun instanceof SaveSession)) return begun;
    return await saveIn(run, begun, call);
  } finally {
    await capture.release();
  }
}

interface Call {
  readonly version: bigint | undefined;
  readonly writer: WriterPosition;
  readonly meta: Annotation;
  readonly capture: Capture;
  /** Empty directories. */
  readonly directories: readonly DirectoryRecord[];
  readonly options: Bounded<SaveOptions>;
}

/**
 * A session, or the result if this version is committed already with the same content. In that case
 * the sources are read and nothing is sent.
 */
async function begin(
  run: RunContext,
  writers: WriterRegistry,
  { version, ...call }: Call,
): Promise<SaveSession | SaveResult> {
  const look = async () =>
    version === undefined ? null : await committedBefore(run, writers, { ...call, version });
  const before = await look();
  if (before) return before;
  try {
    return await writers.begin({ version, writer: call.writer }, call.options);
  } catch (error) {
    // The version may have been committed since then, with the delivery of another process of this
    // writer.
    const meanwhile = isRefusal(error) ? await look().catch((found) => refusedAgain(found, error)) : null;
    if (meanwhile) return meanwhile;
    throw error;
  }
}

function isRefusal(error: unknown): boolean {
  return isCheckpointError(error, 'Conflict') || isCheckpointError(error, 'Fenced');
}

/**
 * A writer that was overtaken gets `Fenced`, whatever the version holds now. A store error in the
 * second look is thrown, because the content of the version is unknown then.
 */
function refusedAgain(found: unknown, first: unknown): never {
  throw isRefusal(found) && isCheckpointError(first, 'Fenced') ? first : found;
}

async function saveIn(
  run: RunContext,
  session: SaveSession,
  { meta: checked, capture, directories, options }: Call,
): Promise<SaveResult> {
  const { version } = session.id;
  options.onProgress?.(plannedEvent(version, capture.sources));
  try {
    const files = await capture.read(version, (sources, signal) =>
      session.upload(sources, { ...options, signal }),
    );
    const meta = { ...checked, taken: capture.taken(version), directories };
    const suspicions = await session.deliver(files, meta, options);
    return await finish(session, { files, suspicions }, options);
  } finally {
    await session.end(options.signal);
    await run.uploads.settled(options.signal);
  }
}

async function finish(
  session: SaveSession,
  { files, suspicions }: { files: readonly UploadedFile[]; suspicions: readonly string[] },
  options: SaveOptions,
): Promise<SaveResult> {
  const result = {
    id: session.id,
    version: session.id.version,
    wasCommittedBefore: false,
    isAnnotated: false,
    sizeBytes: totalBytes(files),
    referencedBytes: totalBytes(files.filter(({ known }) => known !== undefined)),
    fileCount: files.length,
    suspicions,
  };
  if (options.noWait) return { ...result, ...(await session.finaliseOnce(options)) };
  await session.finalise(options);
  return { ...result, isCommitted: true, missingWriters: [] };
}

/**
 * Compares this call with a version that is decided already. Success if the content is the same,
 * `Conflict` if not; `null`: the version is open. `Fenced`: the attempt has passed. The attempt is
 * checked last, so a process that repeats a successful save learns that it succeeded.
 */
async function committedBefore(
  run: RunContext,
  writers: WriterRegistry,
  call: Call & { readonly version: bigint },
): Promise<SaveResult | null> {
  const { version, writer, capture, options } = call;
  const asked = await run.catalog.ask(({ state }) => findByVersion(state, version), options.signal);
  const { answer: committed, head } = asked;
  const context = { store: run.store.uri, version };
  const attempt = writers.attempt(writer);
  const isPast = isPastAttempt(head.state, attempt.id);
  const refusal = (message: string) =>
    isPast ? fencedAttempt(run, head, attempt) : new CheckpointError('Conflict', message, { context });
  if (!committed) {
    const { top } = head.state;
    if (version > top && !isPast) return null;
    throw refusal(`version ${version} is not above ${top}, the highest committed`);
  }
  const share = await unlessRemoved(run.catalog, committed.id, options.signal, () =>
    committedShare(run, committed, call),
  );
  if (share === null) return committedBefore(run, writers, call);
  const files = await capture.read(version, (sources, signal) => {
    const items = sources.map(({ name, source }) => ({ name, key: () => '', source }));
    return run.transfers.checksum(items, transferOptions({ signal }));
  });
  if (committed.state === 'QUARANTINED')
    throw refusal(`version ${version} is committed already, and quarantined as damaged`);
  if (share === 'of other writers' || !isContent(share, files, call)) {
    throw refusal(`version ${version} is committed already, with other content`);
  }
  return {
    id: committed.id,
    version,
    isCommitted: true,
    wasCommittedBefore: true,
    ...(committed.state === 'RETIRING' && { isRetiring: true as const }),
    isAnnotated: await annotateWithNews(run, { id: committed.id, said: share.said }, call),
    sizeBytes: totalBytes(files),
    referencedBytes: 0,
    fileCount: files.length,
    suspicions: [],
    missingWriters: [],
  };
}

interface CommittedShare {
  readonly files: readonly FileRecord[];
  readonly directories: readonly DirectoryRecord[];
  /** Metrics and metadata that the writer gave at the commit. */
  readonly said: Annotation;
}

/**
 * What the committed checkpoint holds of the writer at this position. `'of other writers'`: it was
 * saved with another number of writers.
 */
async function committedShare(
  run: RunContext,
  committed: CatalogCheckpoint,
  { writer, meta, options: { signal } }: Call,
): Promise<CommittedShare | 'of other writers'> {
  const manifest = await readManifest(run, committed, signal);
  if (manifest.worldSize !== writer.count) return 'of other writers';
  const files: FileRecord[] = [];
  const directories: DirectoryRecord[] = [];
  for await (const slice of readSlices(run, manifest, { writer: writer.index, signal })) {
    for (const file of slice.files) files.push(file);
    if (slice.isFirst) directories.push(...slice.said.directories);
  }
  const said = isEmptyAnnotation(meta) ? meta : await readSaid(run, manifest, writer.index, signal);
  return { files, directories, said };
}

/** Whether saving `files` and the call's empty directories would repeat the committed share. */
function isContent(
  share: CommittedShare,
  files: readonly Pick<FileRecord, 'name' | 'sizeBytes' | 'crc32c'>[],
  { directories }: Pick<Call, 'directories'>,
): boolean {
  const content = new SameContent(files, directories);
  content.compare(share.files);
  content.compareDirectories(share.directories);
  return content.isSame;
}

/**
 * Records the metrics and metadata that this call adds to those of the commit, as an annotation.
 * Values that the commit already gave change nothing: a newer annotation may have replaced them
 * since.
 */
async function annotateWithNews(
  run: RunContext,
  { id, said }: { readonly id: CheckpointId; readonly said: Annotation },
  { meta, options: { signal } }: Call,
): Promise<boolean> {
  const news = annotationBeyond(said, meta);
  if (isEmptyAnnotation(news)) return false;
  await recordAnnotation(run, id, { ...news, signal });
  return true;
}
