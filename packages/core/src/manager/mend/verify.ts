/** Compares what the store holds with the records, and commits the result to the catalog. */

import { atATime } from '../../contract/at-a-time.ts';
import type { VerifyOptions, VerifyResult } from '../../contract/checkpoint-manager.ts';
import { CheckpointError, isCheckpointError } from '../../contract/errors.ts';
import type { CatalogCheckpoint, FileRecord, Manifest } from '../../format/index.ts';
import { receiptPlaces, refersToReceipts } from '../../plan/file-lists.ts';
import { boundedReason } from '../../plan/reason.ts';
import { chooseCheckpoint, requireById, requireLive } from '../../plan/select.ts';
import { allReferredTo } from '../../plan/state.ts';
import type { VerifyItem } from '../../transfer/index.ts';
import type { Head } from '../catalog/index.ts';
import { leaseCheckpoint, wantedReference } from '../read/index.ts';
import { getByDigest, ListedSizes, readManifest, readNamedSlices } from '../records/index.ts';
import {
  decide,
  plannedCheckpoint,
  type RunContext,
  transferOptions,
  unlessRemovedMeanwhile,
} from '../run/index.ts';

const RECEIPTS_AT_ONCE = 16;

type Problem = VerifyResult['problems'][number];
type Found = Pick<VerifyResult, 'level' | 'fileCount' | 'bytesRead' | 'storedChecksumCount' | 'problems'>;
type Outcome = Pick<VerifyResult, 'recorded' | 'note' | 'latest'>;
type Bounded = VerifyOptions & { readonly signal: AbortSignal };

export async function verify(run: RunContext, options: VerifyOptions): Promise<VerifyResult> {
  const level = options.level ?? 2;
  const wanted = wantedReference(options.version);
  const choose = ({ state }: Head) => {
    // A checkpoint that a rollback left behind can be verified too. If its records are damaged, no
    // sweep starts until it is quarantined.
    const [found] = wanted === 'latest' ? [] : allReferredTo(state, wanted);
    return found?.rolledBack ? found : chooseCheckpoint(state, wanted);
  };
  const { checkpoint, lease } = await leaseCheckpoint(run, choose, options.signal);
  const signal = options.signal ? AbortSignal.any([options.signal, lease.lost]) : lease.lost;
  try {
    const found = await compare(run, checkpoint, level, { ...options, signal });
    await assertStillThere(run, checkpoint, found, signal);
    const bounded = { ...options, signal };
    const isDoubtful = !(await mayBeRecorded(run, checkpoint, found, bounded));
    const outcome = isDoubtful
      ? { recorded: 'none' as const, note: DOUBTFUL, latest: latestVersion(await run.catalog.read(signal)) }
      : await record(run, checkpoint, found, bounded);
    return { id: checkpoint.id, version: checkpoint.id.version, isDoubtful, ...found, ...outcome };
  } finally {
    await lease.release({ signal });
  }
}

/** `NotFound`: the checkpoint was removed while it was compared, so its problems are no damage. */
async function assertStillThere(
  run: RunContext,
  checkpoint: CatalogCheckpoint,
  { problems: [first] }: Found,
  signal: AbortSignal,
): Promise<void> {
  if (first === undefined) return;
  const error = await unlessRemovedMeanwhile(
    run,
    checkpoint,
    new CheckpointError('Corrupt', first.message),
    signal,
  );
  if (isCheckpointError(error, 'NotFound')) throw error;
}

const DOUBTFUL =
  'a second check found something else, so nothing was quarantined: answers are changed in transit from the store';

/**
 * A quarantine is final, so one wrong answer of the store must not cause it. The files with
 * problems are compared once more: at level 0 by size again, at the other levels by reading all
 * their bytes. At least one problem must be the same both times.
 */
async function mayBeRecorded(
  run: RunContext,
  checkpoint: CatalogCheckpoint,
  { level, problems }: Found,
  options: Bounded,
): Promise<boolean> {
  if (problems.length === 0 || options.quarantine !== true) return true;
  const names = new Set(problems.map(({ name }) => name));
  const quietly = { ...options, onProgress: undefined };
  const again = await compare(run, checkpoint, level === 0 ? 0 : 2, quietly, names);
  const isSame = (a: Problem, b: Problem) => a.name === b.name && a.message === b.message;
  return again.problems.some((problem) => problems.some((first) => isSame(first, problem)));
}

/** `only`: the names of the files to look at; default: all. */
async function compare(
  run: RunContext,
  checkpoint: CatalogCheckpoint,
  level: 0 | 1 | 2,
  options: Bounded,
  only?: ReadonlySet<string>,
): Promise<Found> {
  const { signal } = options;
  const manifest = await problemOf(checkpoint.manifestKey, () => readManifest(run, checkpoint, signal));
  if ('problem' in manifest) {
    const { fileCount } = checkpoint;
    return { level, fileCount, bytesRead: 0, storedChecksumCount: 0, problems: [manifest.problem] };
  }
  options.onProgress?.(plannedCheckpoint(checkpoint, manifest.value));
  const records = new FileRecords(run, manifest.value, { only, signal });
  const report = await run.transfers.verify(records.good(level), transferOptions(options));
  const bad = await badReceipts(run, manifest.value, signal);
  const problems = [...bad, ...records.problems, ...report.problems];
  return { level, fileCount: checkpoint.fileCount, ...report, problems };
}

/**
 * The files of a checkpoint, one after the other. Collects the problems of their records, and of
 * their objects as the store lists them.
 */
class FileRecords {
  readonly #run: RunContext;
  readonly #manifest: Manifest;
  readonly #only: ReadonlySet<string> | undefined;
  readonly #signal: AbortSignal;
  readonly problems: Problem[] = [];

  constructor(
    run: RunContext,
    manifest: Manifest,
    { only, signal }: { readonly only: ReadonlySet<string> | undefined; readonly signal: AbortSignal },
  ) {
    this.#run = run;
    this.#manifest = manifest;
    this.#only = only;
    this.#signal = signal;
  }

  /**
   * Yields the files whose objects the store lists with the right size. The others become problems
   * and need not be read. Cost besides the records: one list page per 1,000 objects.
   */
  async *good(level: 0 | 1 | 2): AsyncGenerator<VerifyItem, void, void> {
    const signal = this.#signal;
    const sizes = new ListedSizes(this.#run, { signal });
    const onDamaged = (name: string, error: CheckpointError) => {
      if (error.code !== 'Corrupt') throw error;
      this.problems.push({ name, message: error.message });
    };
    for await (const { files } of readNamedSlices(this.#run, this.#manifest, { signal, onDamaged })) {
      await sizes.learn(files);
      for (const file of files) {
        const isWanted = this.#only?.has(file.name) ?? true;
        if (isWanted && this.#isThere(file, sizes.get(file.key))) yield { file, level };
      }
    }
  }

  #isThere({ name, key, sizeBytes }: FileRecord, foundBytes: number | undefined): boolean {
    if (foundBytes === sizeBytes) return true;
    const what =
      foundBytes === undefined ? 'is missing' : `has ${foundBytes} bytes; the records say ${sizeBytes}`;
    this.problems.push({ name, message: `${key} ${what}` });
    return false;
  }
}

/**
 * Resolves to the result of `read`, or to a problem if `read` throws `Corrupt`. Throws other
 * errors.
 */
async function problemOf<T>(
  name: string,
  read: () => Promise<T>,
): Promise<{ readonly value: T } | { readonly problem: Problem }> {
  try {
    return { value: await read() };
  } catch (error) {
    if (!isCheckpointError(error, 'Corrupt')) throw error;
    return { problem: { name, message: error.message } };
  }
}

/**
 * A problem for each damaged receipt of a manifest that holds copies of the file records. Readers
 * use the copies. A damaged receipt still shows that the store changes records.
 */
async function badReceipts(run: RunContext, manifest: Manifest, signal: AbortSignal): Promise<Problem[]> {
  if (refersToReceipts(manifest)) return [];
  const read = await atATime(receiptPlaces(manifest), RECEIPTS_AT_ONCE, ({ key, sha256 }) =>
    problemOf(key, () => getByDigest(run, key, sha256, signal)),
  );
  return read.flatMap((each) => ('problem' in each ? [each.problem] : []));
}

/**
 * Records the findings in the catalog. They must be reported even if that fails, so a failure only
 * becomes a note. Exception: a stop by the caller, or the loss of the lease, is thrown.
 */
async function record(
  run: RunContext,
  checkpoint: CatalogCheckpoint,
  found: Found,
  options: Bounded,
): Promise<Outcome> {
  const { signal } = options;
  const kind = decisionFor(found, options);
  let note = '';
  if (kind !== undefined) {
    try {
      const after = await decideOn(run, { checkpoint, kind, reason: reasonFor(found), signal });
      const recorded = kind === 'verify' ? 'verified' : 'quarantined';
      return { recorded, note, latest: latestVersion(after) };
    } catch (error) {
      if (!isCheckpointError(error) || signal.aborted) throw error;
      note = `this could not be recorded in the catalog: ${error.message}`;
      run.logger.log('warn', `version ${checkpoint.id.version}: ${note}`);
    }
  }
  return { recorded: 'none', note, latest: latestVersion(await run.catalog.read(signal)) };
}

function decisionFor(
  { level, problems }: Found,
  options: VerifyOptions,
): 'verify' | 'quarantine' | undefined {
  if (problems.length > 0) return options.quarantine ? 'quarantine' : undefined;
  return level === 2 && options.record !== false ? 'verify' : undefined;
}

function reasonFor({ problems: [first] }: Found): string {
  if (first === undefined) return 'every byte was read and matched';
  return boundedReason(`verify: ${first.message}`);
}

async function decideOn(
  run: RunContext,
  decision: {
    readonly checkpoint: CatalogCheckpoint;
    readonly kind: 'verify' | 'quarantine';
    readonly reason: string;
    readonly signal: AbortSignal;
  },
): Promise<Head> {
  const { id } = decision.checkpoint;
  const { kind, reason, signal } = decision;
  const about = { version: id.version, decision: kind, reason };
  const plan = ({ state }: Head) => {
    const found = requireById(state, id);
    if (kind === 'quarantine') requireLive(found);
    return { kind, lineage: state.lineage, epoch: state.epoch, checkpoint: id, reason };
  };
  const what = `the ${kind} decision`;
  const { after } = await decide(run, plan, { what, about, signal });
  return after;
}

function latestVersion({ state }: Head): bigint | null {
  return state.latest?.version ?? null;
}
