/**
 * The expected state of the run. It is checked from outside at every new entry of the catalog, on
 * the records in the store. It uses nothing that it checks: neither the codecs of the engine nor
 * its decisions.
 */

import { createHash } from 'node:crypto';
import { crc32c } from '@holdfast/core';
import type { MemoryBucket } from '@holdfast/core/store';
import { wholeCheckpoints } from '../crash/raw-pages.ts';
import { type RawFile, rawShares } from '../crash/raw-shares.ts';
import { attemptOfMark, markIn } from './contents.ts';
import { violated } from './invariant-error.ts';

interface RawId {
  readonly lineage?: number;
  readonly epoch?: number;
  readonly version?: string;
}

interface RawCheckpoint {
  readonly id: RawId;
  readonly state?: string;
  readonly pins?: readonly string[];
  readonly retiringSeq?: string;
  readonly metrics?: Readonly<Record<string, number>>;
  readonly annotatedMetadata?: Readonly<Record<string, string>>;
  readonly manifestKey: string;
  readonly manifestSha256: string;
}

interface RawState {
  readonly epoch?: number;
  readonly attempt?: string;
  readonly worldSize?: number;
  readonly incarnations?: Readonly<Record<string, number>>;
  readonly latest?: RawId;
  readonly resumedFrom?: RawId;
  readonly checkpoints?: readonly RawCheckpoint[];
}

interface RawEntry {
  readonly seq: string;
  readonly entryId: string;
  readonly parentId?: string;
  readonly transaction: { readonly id: string; readonly kind: string };
  readonly state: RawState;
}

/** A committed checkpoint, with the author of its files for each writer. */
export interface Committed {
  readonly version: number;
  readonly epoch: number;
  readonly manifestKey: string;
  readonly marks: ReadonlyMap<number, string>;
}

export class History {
  readonly #bucket: MemoryBucket;
  readonly #entries: { readonly key: string; readonly text: string; readonly entry: RawEntry }[] = [];
  readonly #transactions = new Set<string>();
  readonly #attempts: string[] = [];
  /** In the order of commit. */
  readonly committed: Committed[] = [];

  constructor(bucket: MemoryBucket) {
    this.#bucket = bucket;
  }

  get state(): RawState {
    return this.#entries.at(-1)?.entry.state ?? {};
  }

  get top(): number {
    return this.committed.at(-1)?.version ?? -1;
  }

  /** The committed checkpoints that readers are offered. */
  get live(): Committed[] {
    const live = new Set(
      this.state.checkpoints?.filter(({ state }) => state === 'LIVE').map(({ manifestKey }) => manifestKey),
    );
    return this.committed.filter(({ manifestKey }) => live.has(manifestKey));
  }

  find(version: number): Committed | undefined {
    return this.committed.find((each) => each.version === version);
  }

  /** Value under this name in the newest entry. `undefined`: it does not list the checkpoint. */
  annotationOf(of: { readonly version: bigint }, name: string): number | null | undefined {
    const found = this.state.checkpoints?.find(({ id }) => (id.version ?? '0') === String(of.version));
    return found && (found.metrics?.[name] ?? null);
  }

  /** Call after every call that may have written. Checks new entries of the catalog. */
  lookAtCatalog(): void {
    const keys = this.#bucket.keys().filter((key) => key.startsWith('catalog/'));
    for (const key of keys.slice(this.#entries.length)) this.#append(key);
  }

  /** Checks that no written entry has changed and that everything committed still exists. */
  lookAtAll(): void {
    if (this.#bucket.violations.length > 0) violated('I8', this.#bucket.violations.join('; '));
    this.lookAtCatalog();
    for (const { key, text } of this.#entries) {
      if (this.#textOf(key) !== text) violated('I8', `${key} is not what it was when it was written`);
    }
    // The entry is known. Its pages are read again, as they are now.
    const newest = this.#entries.at(-1);
    const now = newest && this.#whole(JSON.parse(newest.text) as RawEntry);
    for (const checkpoint of now?.state.checkpoints ?? []) this.#marksOf(checkpoint, undefined);
  }

  /**
   * Versions above `top` for which every writer of the present attempt has delivered. Any process
   * can commit them.
   */
  completeVersions(): number[] {
    const { epoch = 0, worldSize = 0, incarnations = {} } = this.state;
    const prefix = /^version_(\d+)\/1\.(\d+)\/receipts\/(\d+)\.(\d+)\.json$/;
    const delivered = new Map<number, number>();
    for (const key of this.#bucket.keys()) {
      const [version, of, writer, life] = (prefix.exec(key) ?? []).slice(1).map(Number);
      if (version === undefined || version <= this.top || of !== epoch) continue;
      if ((incarnations[writer as number] ?? 0) !== life) continue;
      delivered.set(version, (delivered.get(version) ?? 0) + 1);
    }
    return [...delivered].filter(([, count]) => count === worldSize).map(([version]) => version);
  }

  #append(key: string): void {
    const parent = this.#entries.at(-1)?.entry;
    const text = this.#textOf(key);
    const entry = this.#whole(JSON.parse(text) as RawEntry);
    if (Number(entry.seq) !== this.#entries.length + 1) violated('I0', `${key} says seq ${entry.seq}`);
    if ((entry.parentId ?? '') !== (parent?.entryId ?? ''))
      violated('I0', `${key} does not follow the entry before it`);
    const { id, kind } = entry.transaction;
    if (this.#transactions.has(id)) violated('I4', `${key} repeats a transaction`);
    this.#transactions.add(id);
    const before = parent?.state ?? {};
    this.#entries.push({ key, text, entry });
    if (kind === 'takeover') this.#takeover(key, before, entry.state);
    else if (kind === 'commit') this.#commit(key, before, entry.state);
    else if (kind === 'register') this.#register(key, before, entry.state);
    else if (kind === 'retire') this.#retire(key, before, entry.state);
    else if (kind === 'remove') this.#remove(key, before, entry.state);
    else if (kind === 'pin') this.#assertHeld(key, before.checkpoints, entry.state.checkpoints);
    else if (kind === 'annotate') this.#annotate(key, before, entry.state);
    else violated('I0', `${key} is a ${kind}, which nobody asked for`);
  }

  #takeover(key: string, before: RawState, after: RawState): void {
    if ((after.epoch ?? 0) !== (before.epoch ?? 0) + 1) violated('I5', `${key}: the epoch is ${after.epoch}`);
    const attempt = after.attempt ?? '';
    if (this.#attempts.includes(attempt)) violated('I5', `${key}: attempt ${attempt} has its turn again`);
    this.#attempts.push(attempt);
    this.#assertSame(key, before.checkpoints, after.checkpoints);
  }

  #register(key: string, before: RawState, after: RawState): void {
    if (after.epoch !== before.epoch || after.attempt !== before.attempt)
      violated('I5', `${key}: a register changes the epoch`);
    for (const [writer, life] of Object.entries(before.incarnations ?? {})) {
      if ((after.incarnations?.[writer] ?? 0) < life)
        violated('I6', `${key}: writer ${writer} goes back to a former life`);
    }
    this.#assertSame(key, before.checkpoints, after.checkpoints);
  }

  #commit(key: string, before: RawState, after: RawState): void {
    if (after.epoch !== before.epoch || after.attempt !== before.attempt)
      violated('I5', `${key}: a commit changes the epoch`);
    const checkpoint = after.checkpoints?.at(-1);
    if (!checkpoint) violated('I4', `${key}: nothing is committed`);
    this.#assertSame(key, before.checkpoints, after.checkpoints?.slice(0, -1));
    const { epoch = 0, version: text = '0' } = checkpoint.id;
    const version = Number(text);
    if (epoch !== before.epoch) violated('I5', `${key}: version ${version} is of epoch ${epoch}`);
    if (version <= this.top) {
      const invariant = this.find(version) ? 'I4' : 'I2';
      violated(invariant, `${key}: version ${version} is committed after ${this.top}`);
    }
    if (Number(after.latest?.version ?? 0) !== version)
      violated('I2', `${key}: latest is ${after.latest?.version}`);
    const marks = this.#marksOf(checkpoint, before);
    this.committed.push({ version, epoch, manifestKey: checkpoint.manifestKey, marks });
  }

  /** I3: retention may not retire these checkpoints. */
  #retire(key: string, before: RawState, after: RawState): void {
    this.#assertHeld(key, before.checkpoints, after.checkpoints);
    for (const [index, { id, pins = [], state }] of (before.checkpoints ?? []).entries()) {
      if (after.checkpoints?.[index]?.state === state) continue;
      const isGuarded = [before.latest, before.resumedFrom].some(
        (each) => each && JSON.stringify(each) === JSON.stringify(id),
      );
      if (isGuarded || pins.length > 0) violated('I3', `${key} retires version ${id.version}`);
    }
    if (!after.checkpoints?.some(({ state }) => state === 'LIVE'))
      violated('I3', `${key} retires the last one`);
  }

  /** One checkpoint has new annotations. All other annotations and checkpoints are unchanged. */
  #annotate(key: string, before: RawState, after: RawState): void {
    const plain = (all: readonly RawCheckpoint[] = []) =>
      all.map(({ metrics: _, annotatedMetadata: __, ...rest }) => rest);
    this.#assertSame(key, plain(before.checkpoints), plain(after.checkpoints));
    for (const [index, { id, metrics = {}, annotatedMetadata = {} }] of (
      before.checkpoints ?? []
    ).entries()) {
      const now = after.checkpoints?.[index];
      const lost = [
        ...Object.keys(metrics).filter((name) => now?.metrics?.[name] === undefined),
        ...Object.keys(annotatedMetadata).filter((name) => now?.annotatedMetadata?.[name] === undefined),
      ];
      if (lost.length > 0) violated('I0', `${key} takes ${lost} away from version ${id.version}`);
    }
  }

  /** Only retired checkpoints are missing. Everything else is unchanged. */
  #remove(key: string, before: RawState, after: RawState): void {
    const left = new Set(after.checkpoints?.map(({ id }) => JSON.stringify(id)));
    const gone = before.checkpoints?.filter(({ id }) => !left.has(JSON.stringify(id))) ?? [];
    for (const { id, state } of gone)
      if (state !== 'RETIRING') violated('I3', `${key} removes version ${id.version}, which is ${state}`);
    const rest = before.checkpoints?.filter((checkpoint) => !gone.includes(checkpoint));
    this.#assertSame(key, rest, after.checkpoints);
  }

  /** The same checkpoints as before, with any annotations. */
  #assertHeld(
    key: string,
    before: readonly RawCheckpoint[] = [],
    after: readonly RawCheckpoint[] = [],
  ): void {
    const held = (all: readonly RawCheckpoint[]) =>
      all.map(({ id, manifestSha256 }) => ({ id, manifestSha256 }));
    this.#assertSame(key, held(before) as RawCheckpoint[], held(after) as RawCheckpoint[]);
  }

  #assertSame(
    key: string,
    before: readonly RawCheckpoint[] = [],
    after: readonly RawCheckpoint[] = [],
  ): void {
    if (JSON.stringify(before) !== JSON.stringify(after))
      violated('I4', `${key} changes what was committed before`);
  }

  /**
   * Every object of a checkpoint exists as its manifest says. `before`: the state on which it was
   * committed.
   */
  #marksOf(
    { id, manifestKey, manifestSha256 }: RawCheckpoint,
    before: RawState | undefined,
  ): Map<number, string> {
    const version = Number(id.version ?? 0);
    const bytes = this.#bytesOf(manifestKey);
    if (createHash('sha256').update(bytes).digest('base64') !== manifestSha256)
      violated('I4', `${manifestKey} is not what the catalog says`);
    const manifest = JSON.parse(new TextDecoder().decode(bytes)) as { readonly worldSize?: number };
    if (before && manifest.worldSize !== before.worldSize)
      violated('I6', `version ${version} has ${manifest.worldSize} writers of ${before.worldSize}`);
    const marks = new Map<number, string>();
    for (const { writer, incarnation, files } of rawShares(manifestKey, (key) =>
      JSON.parse(this.#textOf(key)),
    )) {
      if (before && (before.incarnations?.[writer] ?? 0) !== incarnation)
        violated('I6', `version ${version} has a former life of writer ${writer}`);
      marks.set(writer, this.#markOf(version, writer, files));
    }
    const attempts = new Set([...marks.values()].map(attemptOfMark));
    if (attempts.size > 1) violated('I6', `version ${version} mixes attempts: ${[...marks.values()]}`);
    return marks;
  }

  #markOf(version: number, writer: number, files: readonly RawFile[]): string {
    const found = files.map((file) => {
      const bytes = this.#bytesOf(file.key);
      if (bytes.byteLength !== Number(file.sizeBytes ?? 0) || crc32c(bytes) !== (file.crc32c ?? 0))
        violated('I1', `${file.key} is not what its manifest says`);
      return [file.name, bytes] as const;
    });
    return markIn(Object.fromEntries(found), version, writer);
  }

  #bytesOf(key: string): Uint8Array {
    return this.#bucket.find(key)?.bytes ?? violated('I1', `${key} is missing`);
  }

  /** The entry, including the checkpoints of its pages. */
  #whole(entry: RawEntry): RawEntry {
    const inEntry = new Set(entry.state.checkpoints?.map(({ id }) => JSON.stringify(id)));
    const { latest } = entry.state;
    if (latest && !inEntry.has(JSON.stringify(latest)))
      violated('I2', 'the latest is not in the entry itself');
    const textOf = (key: string) => (this.#bucket.find(key) ? this.#textOf(key) : undefined);
    return { ...entry, state: { ...entry.state, checkpoints: wholeCheckpoints(entry.state, textOf) } };
  }

  #textOf(key: string): string {
    return new TextDecoder().decode(this.#bytesOf(key));
  }
}
