/** Compares two checkpoints of a run. */

import type { CheckpointId, CheckpointReference } from '../../contract/checkpoint-manager.ts';
import type { DiffOptions, DiffResult, FileDiff } from '../../contract/history.ts';
import type { FileRecord } from '../../format/index.ts';
import { diffTensors, type FilePair, fileDiff, mayHoldTensors, pairFiles } from '../../plan/diff.ts';
import { SafetensorsScan } from '../../plan/safetensors.ts';
import { chooseCheckpoint } from '../../plan/select.ts';
import type { Head } from '../catalog/index.ts';
import { readFiles, readManifest } from '../records/index.ts';
import {
  plannedEvent,
  type RunContext,
  readRun,
  transferOptions,
  unlessRemovedMeanwhile,
} from '../run/index.ts';
import { leaseCheckpoint, wantedReference } from './restore.ts';

/** Two headers are in memory at once, as bytes and parsed. */
const HEADER_BUDGET_SHARE = 1 / 8;

export async function diff(
  run: RunContext,
  [before, after]: readonly [CheckpointReference | 'latest', CheckpointReference | 'latest'],
  options: DiffOptions & { readonly signal: AbortSignal },
): Promise<DiffResult> {
  await readRun(run, options.signal);
  return withFiles(run, { version: before, signal: options.signal }, (first) =>
    withFiles(run, { version: after, signal: first.signal }, async (second) => {
      const pairs = pairFiles(first.files, second.files);
      const comparing = new Comparing(run, [first.id, second.id], { ...options, signal: second.signal });
      comparing.announce(pairs);
      const files: FileDiff[] = [];
      for (const pair of pairs) files.push(await comparing.compare(pair));
      return { before: first.id, after: second.id, files, bytesRead: comparing.bytesRead };
    }),
  );
}

interface LeasedFiles {
  readonly id: CheckpointId;
  readonly files: readonly FileRecord[];
  readonly signal: AbortSignal;
}

async function withFiles<T>(
  run: RunContext,
  { version, signal }: { version: CheckpointReference | 'latest'; signal: AbortSignal },
  use: (files: LeasedFiles) => Promise<T>,
): Promise<T> {
  const wanted = wantedReference(version);
  const choose = ({ state }: Head) => chooseCheckpoint(state, wanted);
  const { checkpoint, lease } = await leaseCheckpoint(run, choose, signal);
  const until = AbortSignal.any([signal, lease.lost]);
  try {
    const manifest = await readManifest(run, checkpoint, until);
    const files = await readFiles(run, manifest, { signal: until });
    return await use({ id: checkpoint.id, files, signal: until });
  } catch (error) {
    throw await unlessRemovedMeanwhile(run, checkpoint, error, signal);
  } finally {
    await lease.release();
  }
}

type Bounded = DiffOptions & { readonly signal: AbortSignal };

class Comparing {
  readonly #run: RunContext;
  readonly #ids: readonly [CheckpointId, CheckpointId];
  readonly #options: Bounded;
  bytesRead = 0;

  constructor(run: RunContext, ids: readonly [CheckpointId, CheckpointId], options: Bounded) {
    this.#run = run;
    this.#ids = ids;
    this.#options = options;
  }

  /** Announces the files that are read whole, because that takes time. */
  announce(pairs: readonly FilePair[]): void {
    if (this.#options.tensors !== true) return;
    const files = pairs.filter(mayHoldTensors).flatMap((pair) => this.#namedFiles(pair));
    this.#options.onProgress?.(plannedEvent(this.#ids[1].version, files));
  }

  async compare(pair: FilePair): Promise<FileDiff> {
    if (!mayHoldTensors(pair)) return fileDiff(pair, undefined);
    const scans: SafetensorsScan[] = [];
    for (const file of this.#namedFiles(pair)) {
      const scan = await this.#scan(file);
      if (scan.problem !== undefined) {
        return fileDiff(pair, { note: `${file.name} is not read as safetensors: ${scan.problem}` });
      }
      scans.push(scan);
    }
    const [before, after] = scans as [SafetensorsScan, SafetensorsScan];
    return fileDiff(pair, { tensors: diffTensors(before.tensors, after.tensors) });
  }

  /** Both files have the same name. The versions tell them apart in progress and errors. */
  #namedFiles({ before, after }: FilePair): FileRecord[] {
    const both = [before, after].filter((file) => file !== undefined);
    return both.map((file, index) => ({ ...file, name: `${file.name}@${this.#ids[index]?.version}` }));
  }

  async #scan(file: FileRecord): Promise<SafetensorsScan> {
    const headerBytesMax = this.#run.settings.bufferBytes * HEADER_BUDGET_SHARE;
    const withSums = this.#options.tensors === true;
    const scan = new SafetensorsScan({ fileBytes: file.sizeBytes, headerBytesMax, withSums });
    if (!scan.wantsMore) return scan;
    // Leaving the loop ends the stream and discards what was read ahead.
    for await (const chunk of this.#run.transfers.stream(file, transferOptions(this.#options))) {
      this.bytesRead += chunk.byteLength;
      scan.push(chunk);
      if (!scan.wantsMore) break;
    }
    return scan;
  }
}
