/** Reading the record that names all files of a checkpoint. */

import type {
  CheckpointDetails,
  CheckpointId,
  CheckpointSummary,
  WriterState,
} from '../contract/checkpoint-manager.ts';
import { CheckpointError } from '../contract/errors.ts';
import {
  type CatalogCheckpoint,
  checkLogicalNames,
  decodeRecord,
  type FileRecord,
  idEquals,
  idText,
  type Manifest,
  parsePayloadKey,
  type State,
  type Taken,
} from '../format/index.ts';
import type { Engine } from './engine.ts';
import { getByDigest } from './records.ts';

/** Reads and checks a manifest: digest, identity, names, keys. One GET. `Corrupt` says what is wrong. */
export async function readManifest(
  engine: Engine,
  checkpoint: CatalogCheckpoint,
  signal: AbortSignal | undefined,
): Promise<Manifest> {
  const { manifestKey: key, manifestSha256 } = checkpoint;
  const { id } = checkpoint;
  const bytes = await getByDigest(engine, key, manifestSha256, signal);
  const manifest = decodeRecord('manifest', bytes, { key, store: engine.store.uri });
  const problem = manifestProblem(manifest, id);
  if (!problem) return manifest;
  throw new CheckpointError('Corrupt', `${key} cannot be used: ${problem}`, {
    context: { store: engine.store.uri, key, version: id.version },
  });
}

/** Why a manifest that is whole cannot be used as that of checkpoint `id`; `undefined`: it can. */
export function manifestProblem(manifest: Manifest, id: CheckpointId): string | undefined {
  if (!idEquals(manifest.id, id)) {
    return `it is of checkpoint ${idText(manifest.id)}, not ${idText(id)}`;
  }
  const files = filesOf(manifest);
  try {
    checkLogicalNames(files.map((file) => file.name));
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  const stray = files.find((file) => !parsePayloadKey(file.key));
  return stray && `"${stray.key}", where ${stray.name} should lie, is no payload key`;
}

/** All files, in writer order, then by name. */
export function filesOf(manifest: Manifest): FileRecord[] {
  return manifest.writers.flatMap((share) => share.files);
}

export function summaryOf(state: State, checkpoint: CatalogCheckpoint): CheckpointSummary {
  const { id } = checkpoint;
  const names = { LIVE: 'live', RETIRING: 'retiring', QUARANTINED: 'quarantined' } as const;
  if (checkpoint.state === 'CHECKPOINT_STATE_UNSPECIFIED') {
    throw new CheckpointError('Corrupt', `the catalog does not say the state of ${idText(id)}`);
  }
  return {
    id,
    version: id.version,
    sizeBytes: checkpoint.sizeBytes,
    storedBytes: checkpoint.storedBytes,
    bases: checkpoint.bases,
    fileCount: checkpoint.fileCount,
    metrics: checkpoint.metrics,
    state: names[checkpoint.state],
    isLatest: state.latest !== undefined && idEquals(state.latest, id),
    pins: checkpoint.pins,
    isVerified: checkpoint.verified,
    isSuspect: checkpoint.suspect,
    isLeftBehind: checkpoint.rolledBack,
    reason: checkpoint.reason,
    committedAtMs: checkpoint.committedAtMs,
    graceUntilMs: checkpoint.state === 'RETIRING' ? checkpoint.retiringAtMs + checkpoint.graceMs : null,
  };
}

export function detailsOf(
  summary: CheckpointSummary,
  manifest: Manifest,
  manifestKey: string,
): CheckpointDetails {
  return {
    ...summary,
    worldSize: manifest.worldSize,
    writers: manifest.writers.map(({ writer, taken }) => writerState(writer, taken)),
    files: manifest.writers.flatMap((share) =>
      share.files.map(({ name, sizeBytes, crc32c, key }) => ({
        name,
        sizeBytes,
        crc32c,
        writer: share.writer,
        key,
      })),
    ),
    metadata: manifest.metadata,
    manifestKey,
  };
}

const CONSISTENCIES = { CONSISTENCY_UNSPECIFIED: null, PAUSED: 'paused', POLLUTED: 'polluted' } as const;

function writerState(writer: number, taken: Taken | undefined): WriterState {
  if (!taken) return { writer, consistency: null, stateVersion: null, takenAtMs: null };
  const { consistency, stateVersion, takenAtMs } = taken;
  return { writer, consistency: CONSISTENCIES[consistency], stateVersion, takenAtMs };
}
