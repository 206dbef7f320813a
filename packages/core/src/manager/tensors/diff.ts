/** Compares two checkpoints of a run. */

import type { CheckpointId, CheckpointReference } from '../../contract/checkpoint-manager.ts';
import type { DiffOptions, DiffResult, FileDiff } from '../../contract/history.ts';
import type { FileRecord } from '../../format/index.ts';
import { diffTensors, type FilePair, fileDiff, mayHoldTensors, pairFiles } from '../../plan/diff.ts';
import type { SafetensorsScan } from '../../plan/safetensors.ts';
import { withLeasedManifest } from '../read/index.ts';
import { readFiles } from '../records/index.ts';
import { plannedEvent, type RunContext, readRun } from '../run/index.ts';
import { HeaderReader, scanWithSums } from './scan-tensors.ts';

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

function withFiles<T>(
  run: RunContext,
  wanted: { readonly version: CheckpointReference | 'latest'; readonly signal: AbortSignal },
  use: (files: {
    readonly id: CheckpointId;
    readonly files: readonly FileRecord[];
    readonly signal: AbortSignal;
  }) => Promise<T>,
): Promise<T> {
  return withLeasedManifest(run, wanted, async ({ id, manifest, signal }) =>
    use({ id, files: await readFiles(run, manifest, { signal }), signal }),
  );
}

type Bounded = DiffOptions & { readonly signal: AbortSignal };

class Comparing {
  readonly #run: RunContext;
  readonly #ids: readonly [CheckpointId, CheckpointId];
  readonly #options: Bounded;
  readonly #headers: HeaderReader;
  bytesRead = 0;

  constructor(run: RunContext, ids: readonly [CheckpointId, CheckpointId], options: Bounded) {
    this.#run = run;
    this.#ids = ids;
    this.#options = options;
    this.#headers = new HeaderReader(run);
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
      const { scan, bytesRead } = this.#options.tensors
        ? await scanWithSums(this.#run, file, this.#options)
        : await this.#headers.read(file, this.#options);
      this.bytesRead += bytesRead;
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
}
