/** One checkpoint from a run to another, as all of its writers would have saved it there: payloads, receipts, manifest, commit. */

import type { CheckpointId, MirroredCheckpoint, WaitOptions } from '../contract/checkpoint-manager.ts';
import { type CatalogCheckpoint, checkpointPrefix, type FileRecord, payloadKey } from '../format/index.ts';
import { precheckCommit } from '../plan/apply-commit.ts';
import type { Rejected } from '../plan/decision.ts';
import { DRAWN_DIGITS, type LeftPayload, parseLeftPayload, payloadTag } from '../plan/mirror.ts';
import { requireById } from '../plan/select.ts';
import type { TransferOptions, UploadedFile, UploadItem } from '../transfer/index.ts';
import { type Head, type RunSide, rejectionError } from './catalog.ts';
import { type Reading, readOriginal } from './committed-files.ts';
import { finalise } from './finalise.ts';
import { inBatches } from './in-batches.ts';
import type { Membership } from './join.ts';
import type { OwnReceipt } from './receipts.ts';
import { leaseCheckpoint } from './restore.ts';
import { plannedCheckpoint, transferOptions } from './session.ts';
import type { Said, Slice } from './slices.ts';
import { recordingOf } from './upload-records.ts';
import { deliver } from './write-receipt.ts';

/** Receipts are small: so many at once keep a store busy. */
const RECEIPTS_AT_ONCE = 16;
/** Or one record more: what is held at once of a very large checkpoint, beside what one writer has. */
const FILES_AT_ONCE = 10_000;

export interface Copy {
  readonly source: RunSide;
  readonly target: RunSide;
  /** In the source. */
  readonly checkpoint: CatalogCheckpoint;
  /** Becomes all writers of the target; called when the source's manifest is known to be good. */
  readonly join: (worldSize: number, signal: AbortSignal) => Promise<Membership>;
  /** Throws if the target, once it is joined, is not one to copy to. */
  readonly assertTarget: ((head: Head) => void) | undefined;
}

type Bounded = WaitOptions & { readonly signal: AbortSignal };

type Copied = MirroredCheckpoint & { readonly committed: CatalogCheckpoint };

/** The version was committed, or passed over, and may have been removed since. */
const DECIDED_BY_OTHERS: readonly Rejected['reason'][] = ['stale', 'unknown'];

/**
 * `null`: another mirror has committed the version, or a higher one, before this one had joined.
 * `NotFound`: the source has removed it meanwhile. `Corrupt` with `lent` in its context: it is damaged there.
 */
export async function copyCheckpoint(copy: Copy, options: Bounded): Promise<Copied | null> {
  const { source, target, checkpoint, join } = copy;
  const choose = (head: Parameters<Parameters<typeof leaseCheckpoint>[2]>[0]) =>
    requireById(head.state, checkpoint.id);
  const { lease } = await leaseCheckpoint(source.engine, source.catalog, choose, options.signal);
  const signal = AbortSignal.any([options.signal, lease.lost]);
  try {
    const original = await readOriginal(source.engine, checkpoint, signal);
    const membership = await join(original.manifest.worldSize, signal);
    const copying = new Copying(copy, original, membership, { ...options, signal });
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

/** A writer of which files are copied, and not yet all. */
interface Share {
  readonly said: Said;
  readonly files: FileRecord[];
}

class Copying {
  readonly #copy: Copy;
  readonly #original: Reading;
  readonly #membership: Membership;
  readonly #options: Bounded;
  /** Of the copy. */
  readonly #id: CheckpointId;
  readonly #tag: string;
  /** By writer. */
  readonly #shares = new Map<number, Share>();
  /** Of writer 0. */
  #own: OwnReceipt | undefined;
  #reusedBytes = 0;

  constructor(copy: Copy, original: Reading, membership: Membership, options: Bounded) {
    this.#copy = copy;
    this.#original = original;
    this.#membership = membership;
    this.#options = options;
    const { lineage, epoch } = membership;
    this.#id = { lineage, epoch, version: copy.checkpoint.id.version };
    this.#tag = payloadTag(copy.checkpoint);
  }

  async run(): Promise<Copied | null> {
    const { checkpoint } = this.#copy;
    const { manifest, slices } = this.#original;
    const id = this.#id;
    if (!(await this.#isCommittable())) return null;
    this.#options.onProgress?.(plannedCheckpoint(checkpoint, manifest));
    const left = await this.#listLeft();
    let batch: Slice[] = [];
    let count = 0;
    for await (const slice of slices(this.#options.signal)) {
      batch.push(slice);
      count += slice.files.length;
      if (count < FILES_AT_ONCE) continue;
      await this.#copyBatch(batch, left);
      batch = [];
      count = 0;
    }
    await this.#copyBatch(batch, left);
    await this.#deliverAllBut(undefined);
    const committed = await this.#commit();
    this.#options.onProgress?.({ type: 'committed', id });
    const { sizeBytes, fileCount } = checkpoint;
    return { id, version: id.version, sizeBytes, fileCount, reusedBytes: this.#reusedBytes, committed };
  }

  /**
   * Found out before a byte is sent; whoever joined before can commit nothing any more. `false`: until
   * then another mirror has committed the version, or a higher one.
   */
  async #isCommittable(): Promise<boolean> {
    const { target, assertTarget } = this.#copy;
    const own = { writer: 0, incarnation: this.#membership.incarnation };
    const precheck = ({ state }: Head) => precheckCommit(state, this.#id, own);
    const { answer: decided, head } = await target.catalog.ask(precheck, this.#options.signal);
    if (decided?.kind === 'rejected' && !DECIDED_BY_OTHERS.includes(decided.reason)) {
      const store = target.engine.store.uri;
      const attempt = this.#membership.attempt.id;
      throw rejectionError(decided, { store, version: this.#id.version, attempt });
    }
    assertTarget?.(head);
    return decided === undefined;
  }

  /** Sends what is not there, and delivers for each writer that is complete: all but the last one. */
  async #copyBatch(
    batch: readonly Slice[],
    left: ReadonlyMap<string, readonly LeftPayload[]>,
  ): Promise<void> {
    const { onBytes, ...options } = transferOptions(this.#options);
    const missing: WritersFile[] = [];
    for (const { writer, said, files } of batch) {
      const share = this.#shares.get(writer) ?? { said, files: [] };
      this.#shares.set(writer, share);
      for (const file of files) {
        const key = this.#leftKey(left, { writer, file });
        if (key === undefined) missing.push({ writer, file });
        else {
          share.files.push({ ...file, key });
          this.#reusedBytes += file.sizeBytes;
          onBytes?.(file.name, file.sizeBytes, file.sizeBytes);
        }
      }
    }
    await this.#send(missing, { ...options, onBytes });
    await this.#deliverAllBut(batch.at(-1)?.writer);
  }

  async #send(files: readonly WritersFile[], { onBytes, ...options }: TransferOptions): Promise<void> {
    const { source, target } = this.#copy;
    const loan = source.engine.transfer.lend(options);
    try {
      const items = files.map((each) => ({ ...this.#item(each), source: { lent: loan.lend(each.file) } }));
      const sent = await target.engine.transfer.upload(items, { ...options, onBytes });
      // The record of the source under the key of the copy: its checksums are of the same bytes.
      for (const [index, { writer, file }] of files.entries())
        this.#shares.get(writer)?.files.push({ ...file, key: (sent[index] as UploadedFile).key });
    } finally {
      await loan.end();
    }
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

  /** `unfinished`: a writer of which more files may come. */
  async #deliverAllBut(unfinished: number | undefined): Promise<void> {
    const complete = [...this.#shares].filter(([writer]) => writer !== unfinished);
    const receipts = await inBatches(complete, RECEIPTS_AT_ONCE, ([writer, share]) => {
      this.#shares.delete(writer);
      return this.#deliver(writer, share);
    });
    this.#own ??= receipts.find(({ position }) => position.index === 0);
  }

  #deliver(index: number, { said, files }: Share): Promise<OwnReceipt> {
    const { runId, writer } = this.#membership;
    const { metrics, metadata, suspicions, taken, directories } = said;
    const life = {
      id: this.#id,
      runId,
      writer: { ...writer, index },
      incarnation: this.#incarnationOf(index),
    };
    // All files are objects of the copy's own, whatever the original refers to.
    const says = { bases: [], metrics, metadata, suspicions, taken, directories };
    return deliver(this.#copy.target, { ...life, files, ...says }, this.#options.signal);
  }

  async #commit(): Promise<CatalogCheckpoint> {
    const { target, checkpoint } = this.#copy;
    return finalise(target.engine, target.catalog, {
      id: this.#id,
      runId: this.#membership.runId,
      own: this.#own,
      timeoutMs: 0,
      signal: this.#options.signal,
      onProgress: this.#options.onProgress,
      committedAtMs: checkpoint.committedAtMs || undefined,
    });
  }
}
