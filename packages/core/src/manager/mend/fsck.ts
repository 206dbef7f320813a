/**
 * Compares the catalog with the objects, by listings and records alone. Changes nothing.
 *
 * All objects are listed before the catalog is read, as in a sweep. So the objects of a checkpoint
 * committed meanwhile are not in the listing. A checkpoint may also be removed while it is
 * examined. Each suspected problem is therefore checked once more before it is reported.
 */

import { atATime } from '../../contract/at-a-time.ts';
import type { CheckpointId, WaitOptions } from '../../contract/checkpoint-manager.ts';
import { CheckpointError, isCheckpointError } from '../../contract/errors.ts';
import type { FsckProblem, FsckProblemKind, FsckResult } from '../../contract/upkeep.ts';
import {
  type CatalogCheckpoint,
  type FileRecord,
  idText,
  type Manifest,
  parseCatalogKey,
  parseCheckpointPrefix,
  parseGrantKey,
  parseManifestKey,
  parsePageKey,
  runKey,
} from '../../format/index.ts';
import { receiptPlaces, refersToReceipts } from '../../plan/file-lists.ts';
import { allCheckpoints } from '../../plan/state.ts';
import { totalBytes } from '../../plan/stored-file.ts';
import { type HeldKeys, type ListedObject, planSweep, type SweepPlan } from '../../plan/sweep.ts';
import type { Head } from '../catalog/index.ts';
import {
  addSliceKeys,
  findGarbagePages,
  findStrayUploads,
  heldWithoutManifest,
  manifestKeys,
  measureUpload,
  type StrayUpload,
} from '../keep/index.ts';
import { getByDigest, isUnreadable, ListedSizes, readManifest, readNamedSlices } from '../records/index.ts';
import {
  assertOwnEntries,
  EVERYTHING,
  listRun,
  lostCatalog,
  type RunContext,
  readRunRecord,
  type WholeListing,
} from '../run/index.ts';

/** Problems of one kind that get a line each, for each checkpoint. The rest share one line. */
const NAMED_MAX = 10;
/** Checkpoints examined at once. Each reads several receipts at a time. */
const CHECKPOINTS_AT_ONCE = 4;

export async function fsck(run: RunContext, { signal }: WaitOptions): Promise<FsckResult> {
  const listing = await listRun(run, EVERYTHING, signal);
  const first = await readCatalog(run, listing, signal);
  await assertOwnEntries(run, first, signal);
  const { answer: listed, head } = await run.catalog.ask(({ state }) => allCheckpoints(state), signal, first);
  const examined = await examineAll(run, listing, listed, signal);
  const { answer: now } = await run.catalog.ask(({ state }) => allCheckpoints(state), signal);
  const stillThere = new Set(now.map(({ id }) => idText(id)));
  const there = examined.filter(({ checkpoint }) => stillThere.has(idText(checkpoint.id)));
  const damage = there.flatMap(({ problems }) => problems);
  const held = examined.flatMap(({ keys }) => (keys ? [keys] : []));
  const plan = planSweep(listing, head.state, held);
  const broken = [...(await runRecordProblems(run, listing, signal)), ...damage];
  const problems = [
    ...broken,
    // If a record cannot be read, it is not known which checkpoint these objects belong to.
    ...(held.length === examined.length ? garbageOf(plan) : []),
    ...pageGarbage(await findGarbagePages(run, listing.pages, head, signal)),
    ...byCheckpoint('skipped', plan.skipped, 'a manifest that a rebuild skipped may refer to it'),
    ...byCheckpoint('unfinished', plan.unfinished, 'its writers can still finish it'),
    ...(await uploadProblems(run, listing, head, signal)),
    ...foreignOf(listing, plan),
  ];
  const { objects, claims, leases, pages, others } = listing;
  const all = [...objects, ...claims, ...leases, ...pages, ...others];
  return {
    checkpointCount: there.length,
    objectCount: all.length + listing.uploadRecords.length,
    totalBytes: totalBytes(all),
    problems,
    isSound: broken.length === 0,
    skippedManifests: head.state.skippedManifests,
  };
}

/** The rules of retention are in run.json until others are set. */
async function runRecordProblems(
  run: RunContext,
  { others }: WholeListing,
  signal: AbortSignal | undefined,
): Promise<FsckProblem[]> {
  try {
    await readRunRecord(run, signal);
    return [];
  } catch (error) {
    if (!isCheckpointError(error, 'Corrupt')) throw error;
    const sizeBytes = others.find(({ key }) => key === runKey)?.sizeBytes ?? 0;
    const message = `${error.message}; set the retention rules again, and remove it then`;
    return [{ kind: 'damaged', id: null, key: runKey, objectCount: 1, sizeBytes, message }];
  }
}

async function readCatalog(
  run: RunContext,
  { objects }: WholeListing,
  signal: AbortSignal | undefined,
): Promise<Head> {
  const head = await run.catalog.read(signal);
  if (head.seq > 0) return head;
  const manifest = objects.find(({ key }) => parseManifestKey(key) !== null);
  if (manifest) throw lostCatalog(run, manifest.key, 'nothing was checked');
  const { uri } = run.store;
  throw new CheckpointError('NotFound', `there is no run at ${uri}: it has no catalog and no manifest`, {
    context: { store: uri, run: 'missing' },
  });
}

interface Examined {
  readonly checkpoint: CatalogCheckpoint;
  /** `undefined`: the keys are not known. */
  readonly keys: HeldKeys | undefined;
  readonly problems: readonly FsckProblem[];
}

async function examineAll(
  run: RunContext,
  listing: WholeListing,
  checkpoints: readonly CatalogCheckpoint[],
  signal: AbortSignal | undefined,
): Promise<Examined[]> {
  const sizes = new Map(listing.objects.map(({ key, sizeBytes }) => [key, sizeBytes]));
  return atATime(checkpoints, CHECKPOINTS_AT_ONCE, (checkpoint) => examine(run, checkpoint, sizes, signal));
}

async function examine(
  run: RunContext,
  checkpoint: CatalogCheckpoint,
  sizes: ReadonlyMap<string, number>,
  signal: AbortSignal | undefined,
): Promise<Examined> {
  const { id, manifestKey: key } = checkpoint;
  try {
    const manifest = await readManifest(run, checkpoint, signal);
    const { keys, suspects, unread } = await readWhole(run, checkpoint, manifest, sizes, signal);
    const missing = await missingFiles(run, id, suspects, signal);
    const damaged = await damagedReceipts(run, id, manifest, signal);
    return { checkpoint, keys, problems: [...missing, ...unread, ...damaged] };
  } catch (error) {
    if (!isUnreadable(error)) throw error;
    const keys = await heldWithoutManifest(run, checkpoint, signal);
    const problem = {
      kind: sizes.has(key) ? ('damaged' as const) : ('missing' as const),
      id,
      key,
      objectCount: 1,
      sizeBytes: sizes.get(key) ?? 0,
      message: `${error.message}; ${consequenceOf(keys)}`,
    };
    return { checkpoint, keys, problems: [problem] };
  }
}

/**
 * Goes through all records of a checkpoint. `keys`: the keys of all objects that a sweep must keep
 * for it; `undefined`: they are not known, because a record cannot be read. `suspects`: files whose
 * object was not listed with its size.
 */
async function readWhole(
  run: RunContext,
  checkpoint: CatalogCheckpoint,
  manifest: Manifest,
  sizes: ReadonlyMap<string, number>,
  signal: AbortSignal | undefined,
): Promise<{ keys: HeldKeys | undefined; suspects: FileRecord[]; unread: FsckProblem[] }> {
  const { id } = checkpoint;
  const keys = manifestKeys(checkpoint, manifest);
  const suspects: FileRecord[] = [];
  const damaged: (ListedObject & { message: string })[] = [];
  const onDamaged = (key: string, { message }: CheckpointError) =>
    damaged.push({ key, sizeBytes: sizes.get(key) ?? 0, message });
  for await (const slice of readNamedSlices(run, manifest, { signal, onDamaged })) {
    addSliceKeys(keys, slice);
    for (const file of slice.files) if (sizes.get(file.key) !== file.sizeBytes) suspects.push(file);
  }
  if (damaged.length === 0) return { keys, suspects, unread: [] };
  const held = await heldWithoutManifest(run, checkpoint, signal);
  const consequence = consequenceOf(held);
  const unread = grouped('damaged', id, damaged, ({ message }) => `${message}; ${consequence}`);
  return { keys: held, suspects, unread };
}

/** For messages: the consequence if a record that lists objects of a checkpoint cannot be read. */
function consequenceOf(held: HeldKeys | undefined): string {
  return held
    ? 'the version is already quarantined, and everything sent for it stays'
    : 'it is not known which objects belong to the checkpoint, so garbage is not reported and sweeps do not start';
}

async function missingFiles(
  run: RunContext,
  id: CheckpointId,
  suspects: readonly FileRecord[],
  signal: AbortSignal | undefined,
): Promise<FsckProblem[]> {
  if (suspects.length === 0) return [];
  const now = new ListedSizes(run, { signal });
  await now.learn(suspects);
  const missing = suspects.filter((file) => now.get(file.key) !== file.sizeBytes);
  return grouped('missing', id, missing, ({ name, key, sizeBytes }) => {
    const found = now.get(key);
    const what = found === undefined ? 'is missing' : `has ${found} bytes; the records say ${sizeBytes}`;
    return `${name} of version ${id.version}: ${key} ${what}`;
  });
}

/**
 * Checks the receipts of a manifest that holds copies of the file records. Readers use the copies,
 * but the manifest was built from the receipts. One GET per writer.
 */
async function damagedReceipts(
  run: RunContext,
  id: CheckpointId,
  manifest: Manifest,
  signal: AbortSignal | undefined,
): Promise<FsckProblem[]> {
  if (refersToReceipts(manifest)) return []; // they were read already
  const { preferredConcurrency } = run.store.capabilities;
  const found = await atATime(receiptPlaces(manifest), preferredConcurrency, async ({ key, sha256 }) => {
    try {
      await getByDigest(run, key, sha256, signal);
      return null;
    } catch (error) {
      if (!isUnreadable(error)) throw error;
      return { key, sizeBytes: 0, message: error.message };
    }
  });
  const damaged = found.filter((each) => each !== null);
  return grouped('damaged', id, damaged, ({ message }) => `receipt of version ${id.version}: ${message}`);
}

function grouped<T extends ListedObject>(
  kind: FsckProblemKind,
  id: CheckpointId | null,
  objects: readonly T[],
  messageOf: (object: T) => string,
): FsckProblem[] {
  const named = objects.slice(0, NAMED_MAX).map(
    (object): FsckProblem => ({
      kind,
      id,
      key: object.key,
      objectCount: 1,
      sizeBytes: object.sizeBytes,
      message: messageOf(object),
    }),
  );
  const rest = objects.slice(NAMED_MAX);
  const [first] = rest;
  if (!first) return named;
  return [...named, together(kind, id, rest, `and ${rest.length} more, such as ${first.key}`)];
}

function together(
  kind: FsckProblemKind,
  id: CheckpointId | null,
  objects: readonly ListedObject[],
  message: string,
): FsckProblem {
  const key = objects[0]?.key ?? '';
  return { kind, id, key, objectCount: objects.length, sizeBytes: totalBytes(objects), message };
}

function garbageOf(plan: SweepPlan): FsckProblem[] {
  const { payloads, fileLists, receipts, manifests, claims } = plan;
  const why = 'nothing refers to it any more; a sweep deletes it';
  const problems = byCheckpoint('garbage', [...payloads, ...fileLists, ...receipts, ...manifests], why);
  if (claims.length === 0) return problems;
  return [...problems, together('garbage', null, claims, 'claims of writers of past epochs')];
}

function pageGarbage(pages: readonly ListedObject[]): FsckProblem[] {
  if (pages.length === 0) return [];
  return [together('garbage', null, pages, 'pages of the catalog that no entry refers to any more')];
}

/** One entry for each checkpoint id, in the order of the keys. */
function byCheckpoint(kind: FsckProblemKind, objects: readonly ListedObject[], why: string): FsckProblem[] {
  const of = new Map<string, { id: CheckpointId; objects: ListedObject[] }>();
  for (const object of objects) {
    const id = parseCheckpointPrefix(object.key);
    if (!id) continue;
    const entry = of.get(idText(id)) ?? { id, objects: [] };
    entry.objects.push(object);
    of.set(idText(id), entry);
  }
  return [...of.values()].map((entry) =>
    together(kind, entry.id, entry.objects, `of ${idText(entry.id)}: ${why}`),
  );
}

async function uploadProblems(
  run: RunContext,
  listing: WholeListing,
  head: Head,
  signal: AbortSignal | undefined,
): Promise<FsckProblem[]> {
  const { strays, unreadable } = await findStrayUploads(run, listing, head.state, signal);
  const { preferredConcurrency } = run.store.capabilities;
  const problems = await atATime(strays, preferredConcurrency, (stray) => uploadProblem(run, stray, signal));
  const foreign = unreadable.map(({ key, reason }) => ({ key, sizeBytes: 0, reason }));
  return [
    ...problems,
    ...grouped('foreign', null, foreign, ({ reason }) => `a record that cannot be read: ${reason}`),
  ];
}

async function uploadProblem(
  run: RunContext,
  stray: StrayUpload,
  signal: AbortSignal | undefined,
): Promise<FsckProblem> {
  const about = {
    id: parseCheckpointPrefix(stray.key),
    key: stray.recordKey ?? stray.key,
    objectCount: 1,
    sizeBytes: 0,
  };
  try {
    const sizeBytes = await measureUpload(run, stray, signal);
    if (sizeBytes === null)
      return { ...about, kind: 'garbage', message: `record of the upload of ${stray.key}, which has ended` };
    const message = `the upload of ${stray.key} can no longer be finished; a sweep stops it`;
    return { ...about, kind: 'abandoned-upload', sizeBytes, message };
  } catch (error) {
    if (!isCheckpointError(error, 'InvalidArgument')) throw error;
    const message = `${about.key} is the record of an upload of another store, as in a run that was copied by hand; ignored, and may be removed`;
    return { ...about, kind: 'foreign', message };
  }
}

function foreignOf({ others, pages }: WholeListing, plan: SweepPlan): FsckProblem[] {
  const isOurs = ({ key }: ListedObject) =>
    key === runKey || parseCatalogKey(key) !== null || parseGrantKey(key) !== null;
  const notPages = pages.filter(({ key }) => parsePageKey(key) === null);
  const foreign = [...plan.foreign, ...notPages, ...others.filter((object) => !isOurs(object))];
  return grouped('foreign', null, foreign, ({ key }) => `${key} is not a Holdfast key; ignored`);
}
