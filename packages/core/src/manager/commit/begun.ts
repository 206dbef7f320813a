/** Lists versions that writers have begun and that are not committed, as the store shows them. */

import type { CheckpointId, WaitOptions } from '../../contract/checkpoint-manager.ts';
import { CheckpointError } from '../../contract/errors.ts';
import type { ObjectInfo } from '../../contract/object-store.ts';
import type { BegunVersion } from '../../contract/upkeep.ts';
import { parseCheckpointPrefix, type State } from '../../format/index.ts';
import { chooseReceipts } from '../../plan/assemble.ts';
import { isUncommittable } from '../../plan/state.ts';
import type { Head } from '../catalog/index.ts';
import { listClaims } from '../records/index.ts';
import { type RunContext, readRun } from '../run/index.ts';
import { describeEach, listRecordedUploads, Traces } from './missing-writers.ts';

export async function begun(run: RunContext, { signal }: WaitOptions): Promise<readonly BegunVersion[]> {
  const { state } = await readRun(run, signal);
  const { lineage, epoch, worldSize } = state;
  const listed = (await listBegun(run, state, signal)).map(({ version, traces }) => {
    const { chosen, missing } = chooseReceipts(traces.receipts, state);
    return { version, traces, missing, delivered: chosen.map(({ writer }) => writer) };
  });
  const isLacking = listed.some(({ missing }) => missing.length > 0);
  const claims = isLacking ? await listClaims(run, { lineage, epoch, signal }) : [];
  return listed.map(({ version, traces, missing, delivered }) => ({
    id: { lineage, epoch, version },
    version,
    worldSize,
    deliveredWriters: delivered,
    missing: describeEach(missing, { version, traces, claims }),
    uploadedBytes: traces.uploadedBytes,
    writerBytes: Array.from({ length: worldSize }, (_, writer) => traces.bytesOf(writer)),
  }));
}

/**
 * The highest version above the committed ones for which a writer of this epoch has delivered. Same
 * cost as `listBegun`.
 */
export async function highestDelivered(
  run: RunContext,
  { state }: Head,
  signal: AbortSignal,
): Promise<bigint> {
  const listed = await listBegun(run, state, signal);
  const highest = listed.findLast(({ traces }) => traces.receipts.length > 0);
  if (highest) return highest.version;
  throw new CheckpointError(
    'NotFound',
    `there is no version to commit: no writer of epoch ${state.epoch} has delivered one above ${state.top}`,
    { context: { store: run.store.uri } },
  );
}

/**
 * Lists the versions of the current lineage and epoch that are above the highest committed version
 * and not abandoned, lowest first.
 *
 * Cost: one list page per 1,000 versions, one per 1,000 objects of each open version, and one per
 * 1,000 upload records.
 */
async function listBegun(
  run: RunContext,
  state: State,
  signal: AbortSignal | undefined,
): Promise<{ version: bigint; traces: Traces }[]> {
  const found = new Map<bigint, Traces>();
  const tracesOf = (id: CheckpointId | null): Traces | undefined => {
    if (id === null || !isOpen(state, id)) return undefined;
    const traces = found.get(id.version) ?? new Traces();
    found.set(id.version, traces);
    return traces;
  };
  const [uploads] = await Promise.all([
    listRecordedUploads(run, signal),
    listAbove(run, state, signal, ({ key, ...object }, storeTimeMs) =>
      tracesOf(parseCheckpointPrefix(key))?.addObject({ key, ...object }, storeTimeMs),
    ),
  ]);
  for (const upload of uploads) tracesOf(upload.id)?.addUpload(upload);
  const listed = [...found].map(([version, traces]) => ({ version, traces }));
  return listed.filter(({ traces }) => !traces.isEmpty).sort((a, b) => (a.version < b.version ? -1 : 1));
}

/** Lists the objects of versions above the highest committed one. */
async function listAbove(
  run: RunContext,
  { top }: State,
  signal: AbortSignal | undefined,
  visit: (object: ObjectInfo, storeTimeMs: number) => void,
): Promise<void> {
  for await (const names of run.records.listDirectories?.('', { signal }) ?? []) {
    for (const name of names) {
      const version = /^version_([0-9]{1,19})$/.exec(name)?.[1];
      if (version === undefined || BigInt(version) <= top) continue;
      for await (const { objects, storeTimeMs } of run.records.list(`${name}/`, { signal }))
        for (const object of objects) visit(object, storeTimeMs);
    }
  }
}

/** The writers of this checkpoint can still finish it. */
export function isOpen(state: State, id: CheckpointId): boolean {
  return id.lineage === state.lineage && id.epoch === state.epoch && !isUncommittable(state, id);
}
