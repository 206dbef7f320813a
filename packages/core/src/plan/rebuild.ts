/**
 * A catalog out of manifests, where the catalog itself is gone. Pure.
 *
 * A manifest proves that every writer had delivered, not that it was committed. But whoever builds one has just read a catalog in which the
 * id was current and its version above `top`. From that follows which of them were never committed:
 *
 * - Of two manifests of one id, one has receipts of later lives. It was built after those lives had registered, on a state that did not list
 *   the id; and from their registration on the older one could not be committed. So the older one never was.
 * - In one lineage only a commit moves `top`, upwards, and a takeover keeps it. Whoever built a manifest of version w in epoch F has seen
 *   `top` < w. So of an earlier epoch nothing from w on had been committed; nor could it be later, its epoch having passed.
 * - A later lineage begins with a rollback to a version below all that it writes. What lies above that in earlier lineages was gone back
 *   before, and is kept as rolled back. Where the later lineage began to write is all that is known: what lies between the version gone
 *   back to and the first that was written after it looks as if it had stayed.
 *
 * What remains may still hold a checkpoint whose commit failed last. All of its bytes are there, so it is kept, and is not verified.
 */

import { TIME_MS_MAX } from '../contract/ranges.ts';
import {
  type CatalogCheckpoint,
  type CatalogEntry,
  type CheckpointId,
  checkpointPrefix,
  type FileRecord,
  idText,
  type Manifest,
  type State,
} from '../format/index.ts';
import { committedCheckpoint } from './apply-commit.ts';
import { compareIds, Union } from './assemble.ts';
import { receiptPlaces } from './file-lists.ts';
import { EMPTY_STATE } from './state.ts';
import { totalBytes } from './stored-file.ts';

/** Of the transaction of an entry that begins a rebuilt catalog. */
export const REBUILD_KIND = 'rebuild';
/** A run begins with this entry. The key also holds the mark of a rebuild. */
export const FIRST_SEQ = 1;

/** `entry`, found as number `seq`, is to become the first entry of a rebuilt catalog: the rebuild is under way, or was interrupted. */
export function isRebuildMark(entry: CatalogEntry, seq: number): boolean {
  return seq === FIRST_SEQ && entry.seq > FIRST_SEQ && entry.transaction.kind === REBUILD_KIND;
}

export interface FoundManifest {
  readonly key: string;
  /** That of the key, which the manifest repeats. */
  readonly id: CheckpointId;
  /** Of its bytes. */
  readonly sha256: Uint8Array;
  /** When the store's own clock says it was created. */
  readonly createdAtMs: number;
  readonly manifest: Manifest;
  /** Of all its files. */
  readonly inventory: Inventory;
  /** What of its files is not there; `undefined`: all is. */
  readonly problem: string | undefined;
}

/** What a catalog says of the files of a checkpoint, counted while they are gone through. */
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

export interface Chosen {
  readonly checkpoints: readonly CatalogCheckpoint[];
  readonly leftOut: readonly { readonly key: string; readonly reason: string }[];
}

/** `unreadable`: ids whose manifest is there and cannot be read; they too were built. */
export function chooseManifests(
  found: readonly FoundManifest[],
  unreadable: readonly CheckpointId[],
): Chosen {
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
    const isBefore = ({ id }: FoundManifest) =>
      id.lineage > manifest.id.lineage && id.version <= manifest.id.version;
    return checkpointOf(manifest, chosen.some(isBefore));
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
      ? `${rival.key} was built later, of restarted writers, so this one was never committed`
      : `it and ${rival.key} contradict each other`;
  }
  return whyRefuted(id, built) ?? manifest.problem;
}

/** Why a manifest of this id was never committed, as the ids of all that were built tell; `undefined`: it may have been. */
export function whyRefuted(id: CheckpointId, built: readonly CheckpointId[]): string | undefined {
  const refuting = built.find(
    (other) => other.lineage === id.lineage && other.epoch > id.epoch && other.version <= id.version,
  );
  if (!refuting) return undefined;
  return `it was never committed: ${idText(refuting)} was written later, which takes a catalog without it`;
}

/** Its receipts are of the same lives or later ones, and at least one of a later. */
function isLater({ manifest: a }: FoundManifest, { manifest: b }: FoundManifest): boolean {
  const others = receiptPlaces(b);
  const ages = receiptPlaces(a).map((life, index) => life.incarnation - (others[index]?.incarnation ?? 0));
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
    atMs: Math.min(Math.max(0, Math.round(createdAtMs)), TIME_MS_MAX),
  });
  return { ...checkpoint, rolledBack };
}

/** Nobody has joined it: the next writer takes it over, whatever its attempt. */
export function rebuiltState(
  checkpoints: readonly CatalogCheckpoint[],
  at: {
    readonly lineage: number;
    readonly epoch: number;
    readonly attempt: string;
    readonly txnId: string;
    readonly skippedManifests: readonly string[];
  },
): State {
  const latest = checkpoints.findLast((checkpoint) => !checkpoint.rolledBack)?.id;
  const { lineage, epoch, attempt, txnId, skippedManifests } = at;
  return {
    ...EMPTY_STATE,
    ...{ lineage, epoch, attempt, attemptDrawn: true, worldSize: 1 },
    ...{ latest, top: latest?.version ?? -1n, checkpoints: [...checkpoints], txnRing: [txnId] },
    skippedManifests,
  };
}
