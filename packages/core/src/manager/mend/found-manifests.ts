/** Finds the manifests of a run without a catalog, and chooses those to rebuild a catalog from. */

import { atATime } from '../../contract/at-a-time.ts';
import { CheckpointError, isCheckpointError, throwIfAborted } from '../../contract/errors.ts';
import type { LeftOutManifest, RebuildOptions } from '../../contract/upkeep.ts';
import {
  type CatalogCheckpoint,
  type CheckpointId,
  decodeRecord,
  type FileRecord,
  type Manifest,
  parseManifestKey,
  recordBytesMax,
  sha256,
  toHex,
} from '../../format/index.ts';
import { chooseManifests, type FoundManifest, Inventory, whyRefuted } from '../../plan/rebuild.ts';
import { isUnreadable, manifestProblem, readNamedSlices } from '../records/index.ts';
import type { RunContext, WholeListing } from '../run/index.ts';

const NAMED_MAX = 5;

export interface FoundCheckpoints {
  readonly checkpoints: readonly CatalogCheckpoint[];
  readonly skipped: readonly LeftOutManifest[];
}

/**
 * Cost: one GET per manifest, and one for each record that it refers to. Throws as `rebuildCatalog`
 * does.
 */
export async function findCheckpoints(
  run: RunContext,
  listing: WholeListing,
  { skip = [], signal }: RebuildOptions,
): Promise<FoundCheckpoints> {
  const listed = listing.objects.flatMap(({ key }) => {
    const parsed = parseManifestKey(key);
    return parsed ? [{ key, ...parsed }] : [];
  });
  assertThere(run, skip, listed);
  const reader = new ManifestReader(run, listing, skip);
  const { preferredConcurrency } = run.store.capabilities;
  const read = await atATime(listed, preferredConcurrency, (each) => reader.read(each, signal));
  const unreadable = read.filter((each) => 'error' in each);
  const built = listed.map(({ id }) => id);
  const refuted = unreadable.flatMap(({ key, id }) => leftOut(key, whyRefuted(id, built)));
  const open = unreadable.filter(({ id }) => whyRefuted(id, built) === undefined);
  const problems = open.filter(({ key }) => !skip.includes(key));
  if (problems.length > 0) throw notRebuilt(run, problems);
  const found = read.filter((each) => 'manifest' in each);
  for (const { key } of found) if (skip.includes(key)) warnRead(run, key);
  const chosen = chooseManifests(
    found,
    unreadable.map(({ id }) => id),
  );
  const held = open.map(({ key, error }) => ({ key, reason: error.message, isHeld: true }));
  const skipped = [...held, ...refuted, ...chosen.leftOut.flatMap(({ key, reason }) => leftOut(key, reason))];
  if (chosen.checkpoints.length === 0) throw nothingThere(run, skipped);
  return { checkpoints: chosen.checkpoints, skipped };
}

function leftOut(key: string, reason: string | undefined): LeftOutManifest[] {
  return reason === undefined ? [] : [{ key, reason, isHeld: false }];
}

function warnRead({ logger }: RunContext, key: string): void {
  logger.log('warn', `${key} is not skipped, because this time it could be read`);
}

interface ListedManifest {
  readonly key: string;
  readonly id: CheckpointId;
  readonly sha256Start: string;
}

interface Unreadable {
  readonly key: string;
  readonly id: CheckpointId;
  readonly error: CheckpointError;
}

class ManifestReader {
  readonly #run: RunContext;
  readonly #sizes: ReadonlyMap<string, number>;
  readonly #skip: readonly string[];

  constructor(run: RunContext, { objects }: WholeListing, skip: readonly string[]) {
    this.#run = run;
    this.#sizes = new Map(objects.map(({ key, sizeBytes }) => [key, sizeBytes]));
    this.#skip = skip;
  }

  /**
   * If the store does not answer, throws at once instead of asking for the other manifests. A
   * manifest that may be skipped does not stop the reading.
   */
  async read(listed: ListedManifest, signal: AbortSignal | undefined): Promise<FoundManifest | Unreadable> {
    try {
      return await this.#read(listed, signal);
    } catch (error) {
      throwIfAborted(signal);
      if (!isCheckpointError(error)) throw error;
      const unreadable = { key: listed.key, id: listed.id, error };
      if (error.status !== 'permanent' && !this.#skip.includes(listed.key))
        throw notRebuilt(this.#run, [unreadable]);
      return unreadable;
    }
  }

  async #read(
    { key, id, sha256Start }: ListedManifest,
    signal: AbortSignal | undefined,
  ): Promise<FoundManifest> {
    const { records, store } = this.#run;
    const context = { store: store.uri, key };
    const { bytes, createdAtMs } = await records.get(key, { maxBytes: recordBytesMax(key), signal });
    const digest = sha256(bytes);
    const found = toHex(digest);
    if (!found.startsWith(sha256Start)) {
      const message = `${key} does not match the checksum in its name (found sha256 ${found})`;
      throw new CheckpointError('Corrupt', message, { context });
    }
    const manifest = decodeRecord('manifest', bytes, { key, store: store.uri });
    const unusable = manifestProblem(manifest, id);
    if (unusable) throw new CheckpointError('Corrupt', `${key} cannot be used: ${unusable}`, { context });
    const inventory = new Inventory(id);
    const problem = await this.#count(manifest, inventory, signal);
    return { key, id, sha256: digest, createdAtMs, manifest, inventory, problem };
  }

  /**
   * Goes through all files. Resolves to the first problem of an object that is missing or has
   * another size; `undefined`: all objects are there.
   */
  async #count(
    manifest: Manifest,
    inventory: Inventory,
    signal: AbortSignal | undefined,
  ): Promise<string | undefined> {
    let missing: FileRecord | undefined;
    try {
      for await (const { said, files } of readNamedSlices(this.#run, manifest, { signal })) {
        inventory.add(said, files);
        missing ??= files.find((file) => this.#sizes.get(file.key) !== file.sizeBytes);
      }
    } catch (error) {
      const key = isUnreadable(error) ? error.context['key'] : undefined;
      // Treat a missing receipt or file list like a missing payload: reading again would not find
      // it.
      if (typeof key === 'string' && !this.#sizes.has(key)) return `${key} is missing`;
      throw error;
    }
    const size = missing && this.#sizes.get(missing.key);
    const what = size === undefined ? 'is missing' : `has ${size} bytes, not ${missing?.sizeBytes}`;
    return missing && `${missing.key} ${what}`;
  }
}

function assertThere(
  { store }: RunContext,
  skip: readonly string[],
  listed: readonly ListedManifest[],
): void {
  const missing = skip.find((key) => !listed.some((each) => each.key === key));
  if (missing === undefined) return;
  throw new CheckpointError(
    'InvalidArgument',
    `${missing}, to be skipped, is not a manifest of ${store.uri}`,
    {
      context: { store: store.uri, key: missing },
    },
  );
}

/** The manifests may be those of committed checkpoints, so a person must decide to skip them. */
function notRebuilt({ store }: RunContext, problems: readonly Unreadable[]): CheckpointError {
  const [first] = problems as [Unreadable, ...Unreadable[]];
  const named = problems.slice(0, NAMED_MAX).map(({ key, error }) => sentence(key, error.message));
  const more = problems.length > NAMED_MAX ? [`and ${problems.length - NAMED_MAX} more`] : [];
  const unreadable = problems.map(({ key }) => key);
  const { code } = first.error;
  const mend = code === 'UnsupportedFormat' ? 'rebuild with a newer Holdfast' : 'repeat the rebuild';
  const advice = [
    `${mend}; or skip a manifest with \`skip\`: its version is then not in the catalog, and the objects that it may refer to are kept`,
  ];
  return new CheckpointError(
    code,
    `the catalog of ${store.uri} is not rebuilt, because a manifest cannot be read: ${[...named, ...more].join('; ')}`,
    { context: { store: store.uri, key: first.key, unreadable, advice }, cause: first.error },
  );
}

function sentence(key: string, message: string): string {
  return message.includes(key) ? message : `${key}: ${message}`;
}

function nothingThere({ store: { uri } }: RunContext, skipped: readonly LeftOutManifest[]): CheckpointError {
  const why = skipped[0]
    ? `none of the ${skipped.length} manifests can be used; ${skipped[0].reason}`
    : 'it has no manifest';
  return new CheckpointError('NotFound', `${uri} has nothing from which to rebuild a catalog: ${why}`, {
    context: { store: uri },
  });
}
