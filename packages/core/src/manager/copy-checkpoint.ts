/** One checkpoint from a run to another, as all of its writers would have saved it there: payloads, receipts, manifest, commit. */

import type { CheckpointId, MirroredCheckpoint, WaitOptions } from '../contract/checkpoint-manager.ts';
import { CheckpointError, isCheckpointError } from '../contract/errors.ts';
import {
  type CatalogCheckpoint,
  checkpointPrefix,
  type FileRecord,
  type Manifest,
  payloadKey,
} from '../format/index.ts';
import { precheckCommit } from '../plan/apply-commit.ts';
import { totalBytes } from '../plan/assemble.ts';
import { DRAWN_DIGITS, type LeftPayload, parseLeftPayload, payloadTag } from '../plan/mirror.ts';
import { requireById } from '../plan/select.ts';
import type { UploadedFile, UploadItem } from '../transfer/index.ts';
import { type RunSide, rejectionError } from './catalog.ts';
import type { Engine } from './engine.ts';
import { finalise } from './finalise.ts';
import { inBatches } from './in-batches.ts';
import type { Membership } from './join.ts';
import { filesOf, readManifest } from './manifest.ts';
import type { OwnReceipt } from './receipts.ts';
import { leaseCheckpoint } from './restore.ts';
import { deliver, plannedEvent, transferOptions } from './session.ts';
import { recordingOf } from './upload-records.ts';

/** Receipts are small: so many at once keep a store busy. */
const RECEIPTS_AT_ONCE = 16;

export interface Copy {
  readonly source: RunSide;
  readonly target: RunSide;
  /** In the source. */
  readonly checkpoint: CatalogCheckpoint;
  /** Becomes all writers of the target; called when the source's manifest is known to be good. */
  readonly join: (worldSize: number, signal: AbortSignal) => Promise<Membership>;
}

type Bounded = WaitOptions & { readonly signal: AbortSignal };

/** The manifest of the source. That it is damaged is said as of lent files. */
export async function readOriginal(
  engine: Engine,
  checkpoint: CatalogCheckpoint,
  signal: AbortSignal,
): Promise<Manifest> {
  try {
    return await readManifest(engine, checkpoint, signal);
  } catch (error) {
    if (!isCheckpointError(error, 'Corrupt')) throw error;
    const context = { ...error.context, lent: true };
    throw new CheckpointError('Corrupt', error.message, { context, cause: error.cause });
  }
}

/** `NotFound`: the source has removed it meanwhile. `Corrupt` with `lent` in its context: it is damaged there. */
export async function copyCheckpoint(copy: Copy, options: Bounded): Promise<MirroredCheckpoint> {
  const { source, target, checkpoint, join } = copy;
  const choose = (head: Parameters<Parameters<typeof leaseCheckpoint>[2]>[0]) =>
    requireById(head.state, checkpoint.id);
  const { lease } = await leaseCheckpoint(source.engine, source.catalog, choose, options.signal);
  const signal = AbortSignal.any([options.signal, lease.lost]);
  try {
    const manifest = await readOriginal(source.engine, checkpoint, signal);
    const membership = await join(manifest.worldSize, signal);
    const copying = new Copying(copy, manifest, membership, { ...options, signal });
    return await copying.run();
  } finally {
    await lease.release();
    await target.engine.uploads.settled();
  }
}

/** A file of a checkpoint, and whose it is. */
interface WritersFile {
  readonly writer: number;
  readonly file: FileRecord;
}

class Copying {
  readonly #copy: Copy;
  readonly #manifest: Manifest;
  readonly #membership: Membership;
  readonly #options: Bounded;
  /** Of the copy. */
  readonly #id: CheckpointId;
  readonly #tag: string;

  constructor(copy: Copy, manifest: Manifest, membership: Membership, options: Bounded) {
    this.#copy = copy;
    this.#manifest = manifest;
    this.#membership = membership;
    this.#options = options;
    const { lineage, epoch } = membership;
    this.#id = { lineage, epoch, version: copy.checkpoint.id.version };
    this.#tag = payloadTag(copy.checkpoint);
  }

  async run(): Promise<MirroredCheckpoint> {
    const files = filesOf(this.#manifest);
    this.#options.onProgress?.(plannedEvent(this.#id.version, files));
    await this.#assertCommittable();
    const { copies, reusedBytes } = await this.#copyPayloads();
    const own = await this.#deliverAll(copies);
    await this.#commit(own);
    this.#options.onProgress?.({ type: 'committed', id: this.#id });
    const { version } = this.#id;
    return { id: this.#id, version, sizeBytes: totalBytes(files), fileCount: files.length, reusedBytes };
  }

  /** Found out before a byte is sent. */
  async #assertCommittable(): Promise<void> {
    const { engine, catalog } = this.#copy.target;
    const { state } = await catalog.read(this.#options.signal);
    const decided = precheckCommit(state, this.#id, { writer: 0, incarnation: this.#membership.incarnation });
    if (!decided) return;
    const context = {
      store: engine.store.uri,
      version: this.#id.version,
      attempt: this.#membership.attempt.id,
    };
    if (decided.kind === 'rejected') throw rejectionError(decided, context);
    // It was not there when the catalog was read before, and nothing but another mirror writes to this epoch.
    throw new CheckpointError('Fenced', `another mirror has committed version ${this.#id.version}`, {
      context,
    });
  }

  /** Sends what is not there. */
  async #copyPayloads(): Promise<{ copies: WritersFile[]; reusedBytes: number }> {
    const { source, target } = this.#copy;
    const left = await this.#listLeft();
    const originals = this.#manifest.writers.flatMap(({ writer, files }) =>
      files.map((file) => ({ writer, file })),
    );
    const copies: WritersFile[] = [];
    const missing: WritersFile[] = [];
    for (const original of originals) {
      const key = this.#leftKey(left, original);
      if (key === undefined) missing.push(original);
      else copies.push({ ...original, file: { ...original.file, key } });
    }
    const reusedBytes = totalBytes(copies.map(({ file }) => file));
    const { onBytes, ...options } = transferOptions(this.#options);
    for (const { file } of copies) onBytes?.(file.name, file.sizeBytes, file.sizeBytes);
    const loan = source.engine.transfer.lend(options);
    try {
      const items = missing.map((each) => ({ ...this.#item(each), source: { lent: loan.lend(each.file) } }));
      const sent = await target.engine.transfer.upload(items, { ...options, onBytes });
      // The record of the source under the key of the copy: its checksums are of the same bytes.
      for (const [index, { writer, file }] of missing.entries())
        copies.push({ writer, file: { ...file, key: (sent[index] as UploadedFile).key } });
    } finally {
      await loan.end();
    }
    return { copies, reusedBytes };
  }

  /** What a mirror of this attempt has sent of this very checkpoint before, by name. */
  async #listLeft(): Promise<Map<string, LeftPayload[]>> {
    const { records } = this.#copy.target.engine;
    const left = new Map<string, LeftPayload[]>();
    for await (const page of records.list(checkpointPrefix(this.#id), { signal: this.#options.signal })) {
      for (const { key, sizeBytes } of page.objects) {
        const payload = parseLeftPayload(key, sizeBytes);
        if (payload?.tag !== this.#tag) continue;
        left.set(payload.name, [...(left.get(payload.name) ?? []), payload]);
      }
    }
    return left;
  }

  #leftKey(
    left: ReadonlyMap<string, readonly LeftPayload[]>,
    { writer, file }: WritersFile,
  ): string | undefined {
    const candidates = left.get(file.name);
    return candidates?.find((each) => each.writer === writer && each.sizeBytes === file.sizeBytes)?.key;
  }

  #item({ writer, file }: WritersFile): Omit<UploadItem, 'source'> {
    const { engine } = this.#copy.target;
    const { name } = file;
    const life = { id: this.#id, writer, incarnation: this.#incarnationOf(writer), name };
    const drawn = () => engine.random.hex(DRAWN_DIGITS);
    const key = () => payloadKey({ ...life, nonce: `${this.#tag}${drawn()}` });
    // Without the tag: what lies there is compared only afterwards, so nobody may go on with it.
    const copyKey = () => payloadKey({ ...life, nonce: drawn() });
    return { name, key, copyKey, ...recordingOf(engine, life) };
  }

  /** It has claimed a life of writer 0; nobody else is in its attempt to claim one of the others. */
  #incarnationOf(writer: number): number {
    return writer === 0 ? this.#membership.incarnation : 0;
  }

  /** Resolves to the receipt of writer 0. */
  async #deliverAll(copies: readonly WritersFile[]): Promise<OwnReceipt> {
    const { writers } = this.#manifest;
    const byWriter = new Map<number, FileRecord[]>(writers.map(({ writer }) => [writer, []]));
    for (const { writer, file } of copies) byWriter.get(writer)?.push(file);
    const [first, ...rest] = writers.map(({ writer }) => writer);
    await inBatches(rest, RECEIPTS_AT_ONCE, (writer) => this.#deliver(writer, byWriter.get(writer) ?? []));
    return this.#deliver(first ?? 0, byWriter.get(first ?? 0) ?? []);
  }

  /** The manifest holds the union of what the writers had to say: the first one repeats it, and so the copy's is the same. */
  #deliver(index: number, files: readonly FileRecord[]): Promise<OwnReceipt> {
    const { runId, writer } = this.#membership;
    const { metrics, metadata, suspicions, writers } = this.#manifest;
    const taken = writers.find((share) => share.writer === index)?.taken;
    const life = {
      id: this.#id,
      runId,
      writer: { ...writer, index },
      incarnation: this.#incarnationOf(index),
    };
    const says =
      index === 0 ? { metrics, metadata, suspicions } : { metrics: {}, metadata: {}, suspicions: [] };
    // All files are objects of the copy's own, whatever the original refers to.
    return deliver(
      this.#copy.target.engine,
      { ...life, files, bases: [], taken, ...says },
      this.#options.signal,
    );
  }

  async #commit(own: OwnReceipt): Promise<void> {
    const { target, checkpoint } = this.#copy;
    await finalise(target.engine, target.catalog, {
      id: this.#id,
      runId: this.#membership.runId,
      own,
      timeoutMs: 0,
      signal: this.#options.signal,
      onProgress: this.#options.onProgress,
      committedAtMs: checkpoint.committedAtMs || undefined,
    });
  }
}
