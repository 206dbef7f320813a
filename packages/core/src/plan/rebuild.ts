/**
 * Rebuilds a catalog from manifests if the catalog itself is lost. Pure.
 *
 * A manifest proves that every writer had delivered, but not that it was committed. The process
 * that builds a manifest has just read a catalog in which the id was current and its version above
 * `top`. From this follows which manifests were never committed:
 *
 * - If there are two manifests of one id, one has receipts of later lives. It was built after those
 *   lives had registered, on a state that did not list the id. After their registration the older
 *   manifest could not be committed. So the older one never was.
 * - In one lineage only a commit changes `top`, upwards, and a takeover keeps it. A process that
 *   built a manifest of version w in epoch F has read `top` < w. So no version from w on of an
 *   earlier epoch was committed by then. It could not be committed later either, because its epoch
 *   had passed.
 * - A later lineage begins with a rollback to a version below all that it writes. Versions above
 *   that in earlier lineages were left behind by the rollback, and are kept as rolled back. Only
 *   the first version written in the later lineage is known. Versions between the target of the
 *   rollback and that first version therefore look as if they had stayed on the path.
 *
 * The remaining manifests may still include a checkpoint whose last commit attempt failed. All of
 * its bytes are there, so it is kept, unverified.
 */

import {
  type CatalogCheckpoint,
  type CatalogEntry,
  type CheckpointId,
  checkpointPrefix,
  type FileRecord,
  idText,
  type Manifest,
  type Policy,
  type State,
} from '../format/index.ts';
import { committedCheckpoint } from './apply-commit.ts';
import { compareIds, Union } from './assemble.ts';
import { receiptPlaces } from './file-lists.ts';
import { EMPTY_STATE } from './state.ts';
import { totalBytes } from './stored-file.ts';
import { clockTimeMs } from './times.ts';

/** Transaction kind of the entry that begins a rebuilt catalog. */
export const REBUILD_KIND = 'rebuild';
/** A run begins with this entry. Its key also holds the mark of a rebuild. */
export const FIRST_SEQ = 1;

/**
 * True if `entry`, found as number `seq`, is meant as the first entry of a rebuilt catalog: the
 * rebuild is in progress, or was interrupted.
 */
export function isRebuildMark(entry: CatalogEntry, seq: number): boolean {
  return seq === FIRST_SEQ && entry.seq > FIRST_SEQ && entry.transaction.kind === REBUILD_KIND;
}

export interface FoundManifest {
  readonly key: string;
  /** The id in the key, which the manifest repeats. */
  readonly id: CheckpointId;
  /** SHA-256 of the manifest's bytes. */
  readonly sha256: Uint8Array;
  /** Creation time by the store's own clock. */
  readonly createdAtMs: number;
  readonly manifest: Manifest;
  /** Totals over all its files. */
  readonly inventory: Inventory;
  /** Which of its files are missing; `undefined`: none. */
  readonly problem: string | undefined;
}

/** What a catalog holds about the files of a checkpoint, accumulated file by file. */
export class Inventory {
  readonly union = new Union();
  readonly #prefix: string;
  fileCount = 0;
  sizeBytes = 0;
  storedBytes = 0;

  constructor(id: CheckpointId) {
    this.#prefix = checkpointPrefix(id);
  }

  add(said: Parameters<Union['add']>[0], files: readonly FileRecord[]): void {
    this.union.add(said);
    this.fileCount += files.length;
    this.sizeBytes += totalBytes(files);
    this.storedBytes += totalBytes(files.filter(({ key }) => key.startsWith(this.#prefix)));
  }
}

export interface ChosenManifests {
  readonly checkpoints: readonly CatalogCheckpoint[];
  readonly leftOut: readonly { readonly key: string; readonly reason: string }[];
}

/** `unreadable`: ids whose manifest exists but cannot be read; they too were built. */
export function chooseManifests(
  found: readonly FoundManifest[],
  unreadable: readonly CheckpointId[],
): ChosenManifests {
  const leftOut: { key: string; reason: string }[] = [];
  const built = [...found.map(({ id }) => id), ...unreadable];
  const chosen: FoundManifest[] = [];
  for (const manifest of found) {
    const reason = whySkipped(manifest, found, built);
    if (reason === undefined) chosen.push(manifest);
    else leftOut.push({ key: manifest.key, reason });
  }
  chosen.sort((a, b) => compareIds(a.id, b.id));
  const checkpoints = chosen.map((manifest) => {
    // A manifest of a later lineage proves the rollback, whether or not it can be used.
    const isBefore = (id: CheckpointId) =>
      id.lineage > manifest.id.lineage && id.version <= manifest.id.version;
    return checkpointOf(manifest, built.some(isBefore));
  });
  return { checkpoints, leftOut };
}

function whySkipped(
  manifest: FoundManifest,
  found: readonly FoundManifest[],
  built: readonly CheckpointId[],
): string | undefined {
  const { id } = manifest;
  const others = found.filter((other) => other !== manifest && idText(other.id) === idText(id));
  const rival = others.find((other) => !isLater(manifest, other));
  if (rival) {
    return isLater(rival, manifest)
      ? `${rival.key} was built later, from restarted writers, so this one was never committed`
      : `it and ${rival.key} contradict each other`;
  }
  return whyRefuted(id, built) ?? manifest.problem;
}

/**
 * Why a manifest of this id was never committed, judged by the ids of all manifests that were
 * built; `undefined`: it may have been.
 */
export function whyRefuted(id: CheckpointId, built: readonly CheckpointId[]): string | undefined {
  const refuting = built.find(
    (other) => other.lineage === id.lineage && other.epoch > id.epoch && other.version <= id.version,
  );
  if (!refuting) return undefined;
  return `it was never committed: ${idText(refuting)} was written later, against a catalog without it`;
}

/**
 * True if its receipts are of the same lives or later ones, and at least one is of a later life.
 */
function isLater({ manifest: a }: FoundManifest, { manifest: b }: FoundManifest): boolean {
  const others = receiptPlaces(b);
  const ages = receiptPlaces(a).map(
    ({ incarnation }, index) => incarnation - (others[index]?.incarnation ?? 0),
  );
  return a.worldSize === b.worldSize && ages.every((age) => age >= 0) && ages.some((age) => age > 0);
}

function checkpointOf(found: FoundManifest, rolledBack: boolean): CatalogCheckpoint {
  const { id, key, sha256, createdAtMs, manifest, inventory } = found;
  const { fileCount, sizeBytes, storedBytes, union } = inventory;
  const checkpoint = committedCheckpoint({
    kind: 'commit',
    checkpoint: id,
    worldSize: manifest.worldSize,
    writers: receiptPlaces(manifest),
    manifestKey: key,
    manifestSha256: sha256,
    ...{ fileCount, sizeBytes, storedBytes },
    metrics: union.metrics,
    bases: union.bases,
    suspicions: union.fewSuspicions,
    atMs: clockTimeMs(createdAtMs),
  });
  return { ...checkpoint, rolledBack };
}

/** No attempt has joined this state: the next writer takes the run over, whatever its attempt. */
export function rebuiltState(
  checkpoints: readonly CatalogCheckpoint[],
  at: {
    readonly lineage: number;
    readonly epoch: number;
    readonly attempt: string;
    readonly txnId: string;
    readonly skippedManifests: readonly string[];
    /** The rules in run.json, which has the id of the run before. */
    readonly policy: Policy | undefined;
  },
): State {
  const latest = checkpoints.findLast((checkpoint) => !checkpoint.rolledBack)?.id;
  const { lineage, epoch, attempt, txnId, skippedManifests, policy } = at;
  return {
    ...EMPTY_STATE,
    ...{ lineage, epoch, attempt, attemptDrawn: true, worldSize: 1 },
    ...{ latest, top: latest?.version ?? -1n, checkpoints: [...checkpoints], txnRing: [txnId] },
    skippedManifests,
    policy,
  };
}
