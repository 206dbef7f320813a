/**
 * The run of trainers that start a process for each save, checked from outside on the records in
 * the store. It uses nothing that it checks.
 */

import { crc32c } from '@holdfast/core';
import type { MemoryBucket } from '@holdfast/core/store';
import { type RawFile, rawShares } from '../crash/raw-shares.ts';
import { filledBytes } from '../filled-bytes.ts';
import { violated } from './invariant-error.ts';

interface RawId {
  readonly lineage?: number;
  readonly epoch?: number;
  readonly version?: string;
}

interface RawCheckpoint {
  readonly id: RawId;
  readonly manifestKey: string;
  readonly rolledBack?: boolean;
}

interface RawEntry {
  readonly transaction: { readonly kind: string };
  readonly state: {
    readonly lineage?: number;
    readonly epoch?: number;
    readonly attempt?: string;
    readonly top?: string;
    readonly worldSize?: number;
    readonly incarnations?: Readonly<Record<string, number>>;
    readonly checkpoints?: readonly RawCheckpoint[];
  };
}

/** A committed checkpoint, with the author of its files for each writer. */
export interface CommittedByLives {
  readonly lineage: number;
  readonly epoch: number;
  readonly version: number;
  readonly manifestKey: string;
  readonly marks: ReadonlyMap<number, string>;
}

/** The mark of an author: attempt, version and writer, followed by `life.variant`. */
export function markOf(
  attempt: string,
  { version, writer, life, variant }: Readonly<Record<'version' | 'writer' | 'life' | 'variant', number>>,
): string {
  return `${attempt}/${version}/${writer}/${life}.${variant}`;
}

export function lifeOf(mark: string): number {
  return Number.parseInt(mark.split('/')[3] ?? '', 10);
}

const FIRST_PART_BYTES = 65_536;

/** The first part is the same in all files. The second part depends on the mark. */
function largeBytes(mark: string): Uint8Array {
  const seed = crc32c(new TextEncoder().encode(mark));
  return filledBytes(FIRST_PART_BYTES + 1000, (at) =>
    at < FIRST_PART_BYTES ? at * 31 : (Math.imul(at, 2654435761) ^ seed) >>> 24,
  );
}

const made = new Map<string, Readonly<Record<string, Uint8Array>>>();

export function filesOf(mark: string, isLarge: boolean): Readonly<Record<string, Uint8Array>> {
  const name = `w${mark.split('/')[2]}`;
  const key = `${mark} ${isLarge}`;
  const files = made.get(key) ?? {
    [`${name}/tag`]: new TextEncoder().encode(mark),
    ...(isLarge && { [`${name}/large`]: largeBytes(mark) }),
  };
  made.set(key, files);
  return files;
}

export class LifeRun {
  readonly #bucket: MemoryBucket;
  readonly committed: CommittedByLives[] = [];
  state: RawEntry['state'] = {};
  #seen = 0;

  constructor(bucket: MemoryBucket) {
    this.#bucket = bucket;
  }

  /** Checks new entries of the catalog. */
  look(): void {
    const keys = this.#keysBelow('catalog/');
    for (const key of keys.slice(this.#seen)) {
      const { transaction, state } = this.#record(key) as RawEntry;
      const last = state.checkpoints?.at(-1);
      if (transaction.kind === 'commit' && last) this.#addCommit(last.id, last.manifestKey);
      this.state = state;
      this.#seen++;
    }
  }

  #addCommit({ lineage = 0, epoch = 0, version = '0' }: RawId, manifestKey: string): void {
    const marks = new Map<number, string>();
    for (const { writer, files } of rawShares(manifestKey, (key) => this.#record(key)))
      marks.set(writer, this.#markOf(files));
    this.committed.push({ lineage, epoch, version: Number(version), manifestKey, marks });
  }

  /**
   * The mark of the author of these files. Throws `I1` if the files are incomplete or of several
   * authors.
   */
  #markOf(files: readonly RawFile[]): string {
    const found = files.map(({ name, key, sizeBytes }) => {
      const bytes = this.#bucket.find(key)?.bytes ?? violated('I1', `${key} is missing`);
      if (bytes.byteLength !== Number(sizeBytes ?? 0)) violated('I1', `${key} has another size`);
      return [name, bytes] as const;
    });
    const mark = new TextDecoder().decode(found.find(([name]) => name.endsWith('/tag'))?.[1]);
    const expected = filesOf(mark, found.length > 1);
    for (const [name, bytes] of found) {
      if (Buffer.compare(bytes, expected[name] ?? new Uint8Array()) !== 0)
        violated('I1', `${name} is not what ${mark} wrote`);
    }
    return mark;
  }

  /** True if it was ever committed, even if it was retired later. */
  has(mark: string): boolean {
    return this.#committedOf(mark).length > 0;
  }

  /** True if it is committed and no rollback has left it behind. */
  isOffered(mark: string): boolean {
    const offered = this.state.checkpoints?.filter(({ rolledBack }) => !rolledBack) ?? [];
    return this.#committedOf(mark).some(({ manifestKey }) =>
      offered.some((each) => each.manifestKey === manifestKey),
    );
  }

  #committedOf(mark: string): CommittedByLives[] {
    const [, version, writer] = mark.split('/').map(Number);
    return this.committed.filter(
      (each) => each.version === version && each.marks.get(writer as number) === mark,
    );
  }

  /**
   * I7: a life was told that it is fenced. Then a newer attempt owns the run, or a later life or a
   * rollback exists.
   */
  checkOvertaken(
    process: string,
    { attempt, writer, life }: { readonly attempt: string; readonly writer: number; readonly life: number },
  ): void {
    const { lineage = 0, epoch = 0, attempt: current } = this.state;
    if (attempt !== current) return;
    const livesIn = (of: number) => this.#claimsOf({ lineage: of, epoch }, writer).map(([, each]) => each);
    for (let former = 1; former < lineage; former++) if (livesIn(former).includes(life)) return;
    if (livesIn(lineage).at(-1) !== life) return;
    violated('I7', `${process} was told that it is fenced, but its life is the newest of its writer`);
  }

  /** A sweep deletes nothing of it, and it can still be committed. */
  #isOpen(version: number, at: { lineage: number; epoch: number }): boolean {
    const { lineage = 0, epoch = 0, top = '-1' } = this.state;
    return at.lineage === lineage && at.epoch === epoch && version > Number(top);
  }

  /** I7: the receipt of a life holds the bytes that the life was told are delivered. */
  checkDelivered(process: string, mark: string, at: { lineage: number; epoch: number }): void {
    const [, version, writer] = mark.split('/').map(Number) as [number, number, number];
    if (!this.#isOpen(version, at)) return;
    const life = lifeOf(mark);
    const prefix = `version_${version}/${at.lineage}.${at.epoch}/receipts/${writer}.`;
    const own = this.#keysBelow(prefix).filter((key) => {
      const claim = `writers/${at.lineage}.${at.epoch}/${key.slice(key.lastIndexOf('/') + 1)}`;
      return this.#lifeOfClaim(claim) === life;
    });
    const found = own.map((key) => this.#markOf((this.#record(key) as { files: RawFile[] }).files));
    if (found.length > 0 && !found.includes(mark))
      violated('I7', `${process} was told that it delivered ${mark}, but the receipt holds ${found}`);
  }

  /** I10: files that the newest life of a writer has delivered can still be committed. */
  checkNotVoided(process: string, mark: string, at: { lineage: number; epoch: number }): void {
    const { lineage, epoch } = at;
    const { incarnations = {} } = this.state;
    const [, version, writer] = mark.split('/').map(Number) as [number, number, number];
    if (!this.#isOpen(version, at)) return;
    if (this.#claimsOf(at, writer).at(-1)?.[1] !== lifeOf(mark)) return;
    const counted = `version_${version}/${lineage}.${epoch}/receipts/${writer}.${incarnations[writer] ?? 0}.json`;
    if (!this.#bucket.find(counted))
      violated('I10', `${process} delivered ${mark}, and its own life has voided it`);
  }

  /**
   * I10: no part is sent to an upload without a record, and a record is deleted after its upload.
   */
  checkUploads(): void {
    const tokens = new Set(
      this.#keysBelow('uploads/').map((key) => (this.#record(key) as { token?: string }).token),
    );
    for (const { key, token, parts } of this.#bucket.openUploads())
      if (parts.size > 0 && !tokens.has(token)) violated('I10', `the upload of ${key} has no record`);
  }

  /** Versions above the highest for which a valid receipt of every writer exists. */
  completeVersions(): number[] {
    const { lineage = 0, epoch = 0, top = '-1', worldSize = 0, incarnations = {} } = this.state;
    const writers = Array.from({ length: worldSize }, (_, writer) => writer);
    const versions = new Set(
      this.#keysBelow('version_').map((key) => Number(/^version_(\d+)\//.exec(key)?.[1])),
    );
    const isThere = (version: number, writer: number) =>
      this.#bucket.find(
        `version_${version}/${lineage}.${epoch}/receipts/${writer}.${incarnations[writer] ?? 0}.json`,
      );
    return [...versions].filter(
      (version) => version > Number(top) && writers.every((writer) => isThere(version, writer)),
    );
  }

  /** Incarnations of a writer with their lives, the lowest first. */
  #claimsOf(
    { lineage, epoch }: { readonly lineage: number; readonly epoch: number },
    writer: number,
  ): [number, number][] {
    const prefix = `writers/${lineage}.${epoch}/${writer}.`;
    const claims = this.#keysBelow(prefix).map((key): [number, number] => [
      Number.parseInt(key.slice(prefix.length), 10),
      this.#lifeOfClaim(key),
    ]);
    return claims.sort(([a], [b]) => a - b);
  }

  #lifeOfClaim(key: string): number {
    if (!this.#bucket.find(key)) return -1;
    const { life = '' } = this.#record(key) as { life?: string };
    return life === '' ? -1 : Number(life.slice('life-'.length));
  }

  #keysBelow(prefix: string): string[] {
    return this.#bucket.keys().filter((key) => key.startsWith(prefix));
  }

  #record(key: string): object {
    const bytes = this.#bucket.find(key)?.bytes ?? violated('I1', `${key} is missing`);
    return JSON.parse(new TextDecoder().decode(bytes)) as object;
  }
}
