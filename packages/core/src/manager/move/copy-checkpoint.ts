/**
 * Copies one checkpoint from a run to another, as if all of its writers had saved it there:
 * payloads, receipts, manifest, commit.
 */

import { atATime } from '../../contract/at-a-time.ts';
import type { CheckpointId, MirroredCheckpoint, WaitOptions } from '../../contract/checkpoint-manager.ts';
import { CheckpointError } from '../../contract/errors.ts';
import {
  type CatalogCheckpoint,
  checkpointPrefix,
  type FileRecord,
  payloadKey,
  type State,
} from '../../format/index.ts';
import { precheckCommit } from '../../plan/apply-commit.ts';
import type { Rejected } from '../../plan/decision.ts';
import { DRAWN_DIGITS, type LeftPayload, parseLeftPayload, payloadTag } from '../../plan/mirror.ts';
import { requireById } from '../../plan/select.ts';
import type { TransferOptions, UploadedFile, UploadItem } from '../../transfer/index.ts';
import { type Head, rejectionError } from '../catalog/index.ts';
import { deliver, finalise, type Membership } from '../commit/index.ts';
import { type CommittedFiles, leaseCheckpoint, readOriginal } from '../read/index.ts';
import { type OwnReceipt, recordingOf, type Said, type Slice } from '../records/index.ts';
import { plannedCheckpoint, type RunContext, transferOptions } from '../run/index.ts';

/** Receipts written at once. They are small, so this many keep a store busy. */
const RECEIPTS_AT_ONCE = 16;
/**
 * Files of a very large checkpoint that are held at once, plus at most one record. The files of one
 * unfinished writer are held in addition.
 */
const FILES_AT_ONCE = 10_000;

export interface Copy {
  readonly source: RunContext;
  readonly target: RunContext;
  /** The checkpoint in the source. */
  readonly checkpoint: CatalogCheckpoint;
  /**
   * Joins the target as all of its writers. Called when the source's manifest is known to be good.
   */
  readonly join: (worldSize: number, signal: AbortSignal) => Promise<Membership>;
  /** Throws if the target must not be copied to. Called after `join`. */
  readonly assertTarget: ((head: Head) => void) | undefined;
}

type Bounded = WaitOptions & { readonly signal: AbortSignal };

type Copied = MirroredCheckpoint & { readonly committed: CatalogCheckpoint };

/** Another process has committed or skipped the version, which may have been removed since. */
const DECIDED_BY_OTHERS: readonly Rejected['reason'][] = ['stale', 'unknown'];

/**
 * `null`: another mirror committed the version, or a higher one, before this one joined.
 * `NotFound`: the source has removed the checkpoint meanwhile, or a rollback has left it behind.
 * `Corrupt` with `lent` in its context: the checkpoint is damaged in the source.
 */
export async function copyCheckpoint(copy: Copy, options: Bounded): Promise<Copied | null> {
  const { source, target, checkpoint, join } = copy;
  const choose = (head: Head) => requireOnPath(head.state, checkpoint.id);
  const { lease } = await leaseCheckpoint(source, choose, options.signal);
  const signal = AbortSignal.any([options.signal, lease.lost]);
  try {
    const original = await readOriginal(source, checkpoint, signal);
    const membership = await join(original.manifest.worldSize, signal);
    const copying = new Copying(copy, original, membership, { ...options, signal });
    return await copying.run();
  } finally {
    await lease.release({ signal });
    await target.uploads.settled(signal);
  }
}

/** `NotFound`: the source removed the checkpoint, or a rollback has left it behind. */
function requireOnPath(state: State, id: CheckpointId): CatalogCheckpoint {
  const found = requireById(state, id);
  if (!found.rolledBack) return found;
  throw new CheckpointError('NotFound', `version ${id.version} was left behind by a rollback`, {
    context: { version: id.version },
  });
}

/** A file of a checkpoint, and the writer that it belongs to. */
interface WritersFile {
  readonly writer: number;
  readonly file: FileRecord;
}

/** The copied files of a writer that is not complete yet. */
interface Share {
  readonly said: Said;
  readonly files: FileRecord[];
}

class Copying {
  readonly #copy: Copy;
  readonly #original: CommittedFiles;
  readonly #membership: Membership;
  readonly #options: Bounded;
  /** Id of the copy. */
  readonly #id: CheckpointId;
  readonly #tag: string;
  /** By writer. */
  readonly #shares = new Map<number, Share>();
  /** Receipt of writer 0. */
  #own: OwnReceipt | undefined;
  #reusedBytes = 0;

  constructor(copy: Copy, original: CommittedFiles, membership: Membership, options: Bounded) {
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
    // A rollback of the source during a long copy must not make this version the latest here.
    // Asked before the last receipt: after it, any process may commit.
    const { source, checkpoint: original } = this.#copy;
    await source.catalog.ask(({ state }) => requireOnPath(state, original.id), this.#options.signal);
    await this.#deliverAllBut(undefined);
    const committed = await this.#commit();
    this.#options.onProgress?.({ type: 'committed', id });
    const { sizeBytes, fileCount } = checkpoint;
    return { id, version: id.version, sizeBytes, fileCount, reusedBytes: this.#reusedBytes, committed };
  }

  /**
   * Checked before a byte is sent. A mirror that joined earlier can no longer commit anything.
   * `false`: another mirror committed the version, or a higher one, before this one joined.
   */
  async #isCommittable(): Promise<boolean> {
    const { target, assertTarget } = this.#copy;
    const own = { writer: 0, incarnation: this.#membership.incarnation };
    const precheck = ({ state }: Head) => precheckCommit(state, this.#id, own);
    const { answer: decided, head } = await target.catalog.ask(precheck, this.#options.signal);
    if (decided?.kind === 'rejected' && !DECIDED_BY_OTHERS.includes(decided.reason)) {
      const store = target.store.uri;
      const attempt = this.#membership.attempt.id;
      throw rejectionError(decided, { store, version: this.#id.version, attempt });
    }
    assertTarget?.(head);
    return decided === undefined;
  }

  /**
   * Sends the files that the target lacks. Then delivers for each complete writer: all but the
   * last.
   */
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
    const loan = source.transfers.lend(options);
    try {
      const items = files.map((each) => ({ ...this.#item(each), source: { lent: loan.lend(each.file) } }));
      const sent = await target.transfers.upload(items, { ...options, onBytes });
      // Use the source's file record with the copy's key: its checksums are of the same bytes.
      for (const [index, { writer, file }] of files.entries())
        this.#shares.get(writer)?.files.push({ ...file, key: (sent[index] as UploadedFile).key });
    } finally {
      await loan.end();
    }
  }

  /** Payloads of this checkpoint that a mirror of this attempt has sent before, by file name. */
  async #listLeft(): Promise<Map<string, LeftPayload[]>> {
    const { records } = this.#copy.target;
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
    const run = this.#copy.target;
    const { name } = file;
    const by = { id: this.#id, writer, incarnation: this.#incarnationOf(writer), name };
    const drawn = () => run.random.hex(DRAWN_DIGITS);
    const key = () => payloadKey({ ...by, nonce: `${this.#tag}${drawn()}` });
    // No tag: such an object may be left without having been compared, so no mirror may reuse it.
    const copyKey = () => payloadKey({ ...by, nonce: drawn() });
    return { name, key, copyKey, ...recordingOf(run, by) };
  }

  /**
   * This process has claimed its incarnation of writer 0. No other process of its attempt claims
   * one of the other writers, so theirs is 0.
   */
  #incarnationOf(writer: number): number {
    return writer === 0 ? this.#membership.incarnation : 0;
  }

  /** `unfinished`: a writer of which more files may follow. */
  async #deliverAllBut(unfinished: number | undefined): Promise<void> {
    const complete = [...this.#shares].filter(([writer]) => writer !== unfinished);
    const receipts = await atATime(complete, RECEIPTS_AT_ONCE, ([writer, share]) => {
      this.#shares.delete(writer);
      return this.#deliver(writer, share);
    });
    this.#own ??= receipts.find(({ position }) => position.index === 0);
  }

  #deliver(index: number, { said, files }: Share): Promise<OwnReceipt> {
    const { runId, writer } = this.#membership;
    const { metrics, metadata, suspicions, taken, directories } = said;
    const by = {
      id: this.#id,
      runId,
      writer: { ...writer, index },
      incarnation: this.#incarnationOf(index),
    };
    // The copy has no bases: it owns all of its files, even if the original refers to other
    // checkpoints.
    const says = { bases: [], metrics, metadata, suspicions, taken, directories };
    return deliver(this.#copy.target, { ...by, files, ...says }, this.#options.signal);
  }

  async #commit(): Promise<CatalogCheckpoint> {
    const { target, checkpoint } = this.#copy;
    return finalise(target, {
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
