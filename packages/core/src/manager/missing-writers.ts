/** Says of each writer that has not delivered what the store knows of it. For people; nothing is decided by it. */

import type { CheckpointId } from '../contract/checkpoint-manager.ts';
import type { ListPage } from '../contract/object-store.ts';
import { checkpointPrefix, parsePayloadKey } from '../format/index.ts';
import type { Engine } from './engine.ts';
import { listClaims } from './join.ts';

export interface MissingWriter {
  readonly writer: number;
  readonly detail: string;
}

export async function describeMissing(
  engine: Engine,
  id: CheckpointId,
  missing: readonly number[],
  signal: AbortSignal | undefined,
): Promise<MissingWriter[]> {
  const [claims, uploads] = await Promise.all([
    listClaims(engine, { lineage: id.lineage, epoch: id.epoch, signal }),
    lastUploads(engine, id, signal),
  ]);
  return missing.map((writer) => {
    const uploadAgeMs = uploads.get(writer);
    if (uploadAgeMs !== undefined)
      return { writer, detail: `writer ${writer} last uploaded ${ageText(uploadAgeMs)} ago` };
    const joined = claims.filter((claim) => claim.writer === writer);
    if (joined.length === 0) return { writer, detail: `writer ${writer} never joined` };
    const ageMs = Math.min(...joined.map((claim) => claim.storeTimeMs - claim.createdAtMs));
    return {
      writer,
      detail: `writer ${writer} joined the run ${ageText(ageMs)} ago and has finished no file of version ${id.version}`,
    };
  });
}

/** Age of the newest payload object of each writer, by the store's own clock. */
async function lastUploads(
  engine: Engine,
  id: CheckpointId,
  signal: AbortSignal | undefined,
): Promise<Map<number, number>> {
  const ages = new Map<number, number>();
  let first: ListPage | undefined;
  for await (const page of engine.records.list(checkpointPrefix(id), { signal })) {
    first ??= page;
    for (const object of page.objects) {
      const payload = parsePayloadKey(object.key);
      if (!payload) continue;
      const ageMs = first.storeTimeMs - object.createdAtMs;
      ages.set(payload.writer, Math.min(ageMs, ages.get(payload.writer) ?? Number.POSITIVE_INFINITY));
    }
  }
  return ages;
}

function ageText(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 90) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}
