/**
 * Builds the manifest from the receipts of all writers. Each receipt and each file list is read
 * once. From file lists, only the names of files and the keys of objects stay in memory.
 */

import type { CheckpointId } from '../../contract/checkpoint-manager.ts';
import { CheckpointError } from '../../contract/errors.ts';
import type { FileRecord, Receipt, WriterIncarnation } from '../../format/index.ts';
import { type AssembledManifest, Assembly, receiptProblem, type StoredReceipt } from '../../plan/assemble.ts';
import { clashText, type NameClash, NameOwners } from '../../plan/names.ts';
import {
  assertOrdered,
  ListedSizes,
  type OwnReceipt,
  readAhead,
  readLists,
  readReceipt,
} from '../records/index.ts';
import type { RunContext } from '../run/index.ts';

/**
 * Receipts read at once. Receipts are small, so it takes this many requests to keep a store busy.
 */
const RECEIPTS_AT_ONCE = 16;

export interface GatherOptions {
  readonly id: CheckpointId;
  /** The process of each writer whose receipt goes into the manifest, in writer order. */
  readonly chosen: readonly WriterIncarnation[];
  /** The caller's own receipt, which need not be read again. */
  readonly own: OwnReceipt | undefined;
  readonly signal: AbortSignal | undefined;
  /** Called after each answer of the store. */
  readonly onAnswer: () => void;
}

/**
 * Cost: one GET for each receipt except the caller's own, one for each file list, and one list page
 * per 1,000 objects of each checkpoint that holds objects of these files.
 *
 * `WorldSizeMismatch`: a receipt is in the wrong place or states another number of writers.
 * `Conflict`: two writers delivered the same name, or one delivered a file with the name of the
 * other's directory. `Corrupt`: a payload is missing or has another size.
 */
export async function gather(run: RunContext, options: GatherOptions): Promise<AssembledManifest> {
  const { id, chosen, signal, onAnswer } = options;
  const assembly = new Assembly(id, chosen.length, run.recordLimits);
  const names = new NameOwners();
  const payloads = new Payloads(run, options);
  const refuse = (clash: NameClash | undefined) => {
    if (clash)
      throw refusal(run, 'Conflict', id, `version ${id.version} cannot be committed: ${clashText(clash)}`);
  };
  const receipts = readChecked(run, assembly, options);
  for await (const { writer, files, said, isFirst } of readLists(run, receipts, { signal })) {
    onAnswer();
    refuse(names.add(files, writer));
    if (isFirst) names.addDirectories(said.directories, writer);
    assembly.addFiles(files);
    await payloads.add(files);
  }
  refuse(names.findDirectory());
  await payloads.assertThere();
  return assembly.finish();
}

async function* readChecked(
  run: RunContext,
  assembly: Assembly,
  { id, chosen, own, signal, onAnswer }: GatherOptions,
): AsyncGenerator<Receipt, void, void> {
  const at = { count: RECEIPTS_AT_ONCE, signal };
  const read = readAhead(chosen, at, async (by, until) =>
    own && isOf(own, by) ? own : readReceipt(run, id, by, until),
  );
  for await (const stored of read) {
    onAnswer();
    assertBelongs(run, id, stored, chosen.length);
    assembly.add(stored);
    yield stored === own && own.files ? { ...own.receipt, files: own.files, fileLists: [] } : stored.receipt;
  }
}

function isOf({ position, incarnation }: OwnReceipt, by: WriterIncarnation): boolean {
  return position.index === by.writer && incarnation === by.incarnation;
}

function assertBelongs(run: RunContext, id: CheckpointId, stored: StoredReceipt, worldSize: number): void {
  const { key, receipt } = stored;
  const problem = receiptProblem(stored, id, worldSize);
  if (problem) throw refusal(run, 'WorldSizeMismatch', id, problem, { writer: receipt.writer });
  assertOrdered(run, key, receipt);
}

/**
 * Checks that the objects of all files are in the store. A file may share the object of an earlier
 * checkpoint. An object that seems missing or has another size is listed once more: a listing in
 * pages is not a snapshot.
 */
class Payloads {
  readonly #run: RunContext;
  readonly #options: GatherOptions;
  readonly #sizes: ListedSizes;
  readonly #wrong: FileRecord[] = [];

  constructor(run: RunContext, options: GatherOptions) {
    this.#run = run;
    this.#options = options;
    this.#sizes = new ListedSizes(run, options);
  }

  async add(files: readonly FileRecord[]): Promise<void> {
    await this.#sizes.learn(files);
    for (const file of files) if (this.#sizes.get(file.key) !== file.sizeBytes) this.#wrong.push(file);
  }

  async assertThere(): Promise<void> {
    if (this.#wrong.length === 0) return;
    const { id } = this.#options;
    const now = new ListedSizes(this.#run, this.#options);
    await now.learn(this.#wrong);
    const wrong = this.#wrong.find((file) => now.get(file.key) !== file.sizeBytes);
    if (!wrong) return;
    const { name, key, sizeBytes } = wrong;
    const found = now.get(key);
    const what = found === undefined ? 'is missing' : `has ${found} bytes`;
    const message = `version ${id.version} cannot be committed: ${name} (${key}) was delivered with ${sizeBytes} bytes but ${what}`;
    throw refusal(this.#run, 'Corrupt', id, message, { key, name });
  }
}

function refusal(
  { store }: RunContext,
  code: 'Conflict' | 'Corrupt' | 'WorldSizeMismatch',
  { version }: CheckpointId,
  message: string,
  context: { readonly writer?: number; readonly key?: string; readonly name?: string } = {},
): CheckpointError {
  return new CheckpointError(code, message, { context: { store: store.uri, version, ...context } });
}
