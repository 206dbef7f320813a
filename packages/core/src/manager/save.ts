/** `save()` in one call, and `commit()` by a survivor. */

import type {
  CommitWaitOptions,
  SaveOptions,
  SaveResult,
  VersionInput,
  WriterPosition,
} from '../contract/checkpoint-manager.ts';
import { CheckpointError, isCheckpointError } from '../contract/errors.ts';
import { type CatalogCheckpoint, type FileRecord, toVersion } from '../format/index.ts';
import { totalBytes } from '../plan/assemble.ts';
import { sameContent } from '../plan/same-content.ts';
import { findByVersion, isPastAttempt } from '../plan/state.ts';
import type { UploadedFile } from '../transfer/index.ts';
import { highestDelivered, readHeadOfRun } from './begun.ts';
import type { Catalog } from './catalog.ts';
import type { Engine } from './engine.ts';
import { finalise } from './finalise.ts';
import { fencedAttempt } from './join.ts';
import { readManifest } from './manifest.ts';
import { plannedEvent, type SaveSession, transferOptions } from './session.ts';
import { assertOneOf, checkMeta, checkStaleOptions, type NamedSource, resolveSources } from './sources.ts';
import type { WriterRegistry } from './writers.ts';

type Bounded<T> = T & { signal: AbortSignal };

export async function save(
  engine: Engine,
  catalog: Catalog,
  writers: WriterRegistry,
  options: Bounded<SaveOptions>,
): Promise<SaveResult> {
  // Everything that can be wrong with the call is found out before the store is touched.
  const writer = writers.position(options.writer);
  const meta = checkMeta(options);
  const version = options.version === undefined ? undefined : toVersion(options.version);
  checkStaleOptions(options);
  assertOneOf('dedupe', options.dedupe, ['auto', 'off']);
  writers.attempt(writer);
  const sources = await resolveSources(engine, options);
  const look = async () =>
    version === undefined
      ? null
      : await committedBefore(engine, catalog, writers, { version, writer, sources, options });
  const before = await look();
  if (before) return before;

  let session: SaveSession;
  try {
    session = await writers.begin({ version, writer }, options);
  } catch (error) {
    // Others may have committed it since, with what a former life of this writer had delivered.
    const meanwhile = isCheckpointError(error, 'Conflict') ? await look() : null;
    if (meanwhile) return meanwhile;
    throw error;
  }
  options.onProgress?.(plannedEvent(session.id.version, sources));
  try {
    const files = await session.upload(sources, options);
    const suspicions = await session.deliver(files, meta, options);
    return await finish(session, { files, suspicions }, options);
  } finally {
    await session.end();
    await engine.uploads.settled();
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
    sizeBytes: totalBytes(files),
    referencedBytes: totalBytes(files.filter(({ known }) => known !== undefined)),
    fileCount: files.length,
    suspicions,
  };
  if (options.noWait) return { ...result, ...(await session.finaliseOnce(options)) };
  await session.finalise(options);
  return { ...result, isCommitted: true, missingWriters: [] };
}

/** This version is decided already: success if the content is the same, `Conflict` if not; `null`: it is open. */
async function committedBefore(
  engine: Engine,
  catalog: Catalog,
  writers: WriterRegistry,
  call: {
    version: bigint;
    writer: WriterPosition;
    sources: readonly NamedSource[];
    options: Bounded<SaveOptions>;
  },
): Promise<SaveResult | null> {
  const { version, writer, sources, options } = call;
  const head = await catalog.read(options.signal);
  const attempt = writers.attempt(writer);
  if (isPastAttempt(head.state, attempt.id)) throw fencedAttempt(engine, head, attempt);
  const committed = findByVersion(head.state, version);
  const context = { store: engine.store.uri, version };
  if (!committed) {
    const { top } = head.state;
    if (version > top) return null;
    throw new CheckpointError('Conflict', `version ${version} is not above ${top}, the highest committed`, {
      context,
    });
  }
  const share = await committedShare(engine, committed, writer, options.signal);
  const items = sources.map(({ name, source }) => ({ name, key: () => '', source }));
  const files = await engine.transfer.checksum(items, transferOptions({ signal: options.signal }));
  if (committed.state === 'QUARANTINED' || !share || !sameContent(share, files)) {
    throw new CheckpointError('Conflict', `version ${version} is committed already, with other content`, {
      context,
    });
  }
  return {
    id: committed.id,
    version,
    isCommitted: true,
    wasCommittedBefore: true,
    sizeBytes: totalBytes(files),
    referencedBytes: 0,
    fileCount: files.length,
    suspicions: [],
    missingWriters: [],
  };
}

/** What the committed checkpoint holds of a writer at this position; `null` if it had another number of writers. */
async function committedShare(
  engine: Engine,
  committed: CatalogCheckpoint,
  writer: WriterPosition,
  signal: AbortSignal,
): Promise<readonly FileRecord[] | null> {
  const manifest = await readManifest(engine, committed, signal);
  if (manifest.worldSize !== writer.count) return null;
  return manifest.writers[writer.index]?.files ?? null;
}

/** Finishes a version whose writers have all delivered. */
export async function finishVersion(
  engine: Engine,
  catalog: Catalog,
  options: Bounded<CommitWaitOptions & { version?: VersionInput | undefined }>,
): Promise<CatalogCheckpoint> {
  const { signal } = options;
  const head = await readHeadOfRun(engine, catalog, signal);
  const version =
    options.version === undefined ? await highestDelivered(engine, head, signal) : toVersion(options.version);
  const committed = findByVersion(head.state, version);
  if (committed) return committed;
  const { lineage, epoch } = head.state;
  return finalise(engine, catalog, {
    id: { lineage, epoch, version },
    runId: head.runId,
    timeoutMs: options.timeoutMs ?? 0, // nobody waits on this call, unless it is told to
    signal,
    onProgress: options.onProgress,
  });
}
