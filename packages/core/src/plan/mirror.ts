/**
 * Selects what a mirror copies, and finds what is already copied or left by an interrupted mirror.
 * Pure.
 */

import type { MirrorSelection } from '../contract/checkpoint-manager.ts';
import { CheckpointError } from '../contract/errors.ts';
import {
  type CatalogCheckpoint,
  type FileRecord,
  parsePayloadKey,
  type Receipt,
  type State,
  sha256,
  toHex,
  toVersion,
} from '../format/index.ts';
import { type Annotation, annotationBeyond, isEmptyAnnotation } from './annotation.ts';
import { Union } from './assemble.ts';
import { allCheckpoints, latestOf, onPath } from './state.ts';

/** Digits of a nonce used for the tag; a nonce has at most 32. */
const TAG_DIGITS = 16;
/** Digits after the tag: random, as in any nonce. */
export const DRAWN_DIGITS = 16;

/** Checkpoints that a rollback left behind, and whose versions were not saved again since. */
export function leftBehind(state: State): CatalogCheckpoint[] {
  const all = allCheckpoints(state);
  const again = new Set(all.filter(({ rolledBack }) => !rolledBack).map(({ id }) => id.version));
  return all.filter(({ id, rolledBack }) => rolledBack && !again.has(id.version));
}

/**
 * The selected live checkpoints, ascending. `NotFound`: a version that was asked for does not
 * exist, or is not live. `InvalidArgument`: more than one selection option.
 */
export function selectForMirror(state: State, selection: MirrorSelection): CatalogCheckpoint[] {
  const { versions, since, latest } = selection;
  if ([versions, since, latest || undefined].filter((each) => each !== undefined).length > 1) {
    throw new CheckpointError(
      'InvalidArgument',
      'a mirror takes only one of `versions`, `since` and `latest`',
    );
  }
  if (latest) return [latestOf(state)].filter((each) => each !== undefined);
  const live = onPath(state).filter((checkpoint) => checkpoint.state === 'LIVE');
  if (since !== undefined) {
    const lowest = toVersion(since);
    return live.filter((checkpoint) => checkpoint.id.version >= lowest);
  }
  if (versions === undefined) return live;
  const wanted = new Set(versions.map(toVersion));
  const found = live.filter((checkpoint) => wanted.delete(checkpoint.id.version));
  const [missing] = wanted;
  if (missing === undefined) return found;
  const newest = live.at(-1)?.id.version;
  const have = newest === undefined ? 'the run is empty' : `the newest of ${live.length} is ${newest}`;
  throw new CheckpointError('NotFound', `there is no version ${missing} to mirror: ${have}`, {
    context: { version: missing },
  });
}

/**
 * The content of a checkpoint as readers see it, accumulated file by file. Memory: one digest for
 * each writer.
 */
export class Content {
  readonly worldSize: number;
  readonly union = new Union();
  /** Digests over names, sizes and checksums in order, by writer. */
  readonly #digests = new Map<number, string>();

  constructor(worldSize: number) {
    this.worldSize = worldSize;
  }

  /**
   * Call it in the order of the writers, and for one writer in the order of its names. Each call
   * for one writer passes the same empty directories.
   */
  add(
    writer: number,
    said: Parameters<Union['add']>[0] & Pick<Receipt, 'directories'>,
    files: readonly FileRecord[],
  ): void {
    this.union.add(said);
    const before =
      this.#digests.get(writer) ??
      digestOver(
        '',
        said.directories.map(({ name }) => [name]),
      );
    const facts = files.map(({ name, sizeBytes, crc32c }) => [name, sizeBytes, crc32c]);
    this.#digests.set(writer, digestOver(before, facts));
  }

  digestOf(writer: number): string {
    return this.#digests.get(writer) ?? '';
  }
}

function digestOver(start: string, facts: readonly (readonly (string | number)[])[]): string {
  let digest = start;
  for (const each of facts)
    digest = toHex(sha256(new TextEncoder().encode(JSON.stringify([digest, ...each]))));
  return digest;
}

/** How a copy differs from its source; `undefined`: a reader would notice no difference. */
export function differenceOf(source: Content, copy: Content): string | undefined {
  if (source.worldSize !== copy.worldSize) return `${source.worldSize} writers, not ${copy.worldSize}`;
  for (let writer = 0; writer < source.worldSize; writer++) {
    if (source.digestOf(writer) !== copy.digestOf(writer))
      return `writer ${writer} has other files or empty directories`;
  }
  if (!sameEntries(source.union.metrics, copy.union.metrics)) return 'the metrics differ';
  return sameEntries(source.union.metadata, copy.union.metadata) ? undefined : 'the metadata differ';
}

/**
 * Annotations that the original received since its commit and the copy lacks; `undefined`: none.
 * `saved`: the metrics of the original's commit. They are excluded, so that a value with which only
 * the copy was annotated stays.
 */
export function missingAnnotation(
  source: CatalogCheckpoint,
  copy: CatalogCheckpoint,
  saved: Readonly<Record<string, number>>,
): Annotation | undefined {
  const said = annotationBeyond({ metrics: saved, metadata: {} }, annotationOf(source));
  const missing = annotationBeyond(annotationOf(copy), said);
  return isEmptyAnnotation(missing) ? undefined : missing;
}

/** True if nothing was annotated between two readings of one checkpoint. */
export function isAnnotatedAlike(a: CatalogCheckpoint, b: CatalogCheckpoint): boolean {
  return sameEntries(a.metrics, b.metrics) && sameEntries(a.annotatedMetadata, b.annotatedMetadata);
}

function annotationOf({ metrics, annotatedMetadata }: CatalogCheckpoint): Annotation {
  return { metrics, metadata: annotatedMetadata };
}

function sameEntries<T>(a: Readonly<Record<string, T>>, b: Readonly<Record<string, T>>): boolean {
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => Object.is(a[name], b[name]));
}

/**
 * The source of a mirror. Within one lineage a version is committed once, so run, lineage and
 * version name one checkpoint.
 */
export interface MirrorOrigin {
  readonly runId: string;
  readonly lineage: number;
}

/**
 * The attempt id of mirrors of one run. While it owns the destination, another mirror of the same
 * run continues it as a new life of its writer. So it can use the objects that the previous mirror
 * left. Once the attempt has passed, `nonce` makes a new attempt id.
 */
export function mirrorAttempt(origin: MirrorOrigin, nonce: string): string {
  return `${attemptPrefix(origin)}${nonce}`;
}

export function isMirrorAttempt(attempt: string, origin: MirrorOrigin): boolean {
  return attempt.startsWith(attemptPrefix(origin));
}

/** `null`: the attempt is not that of a mirror. */
export function mirrorOriginOf(attempt: string): MirrorOrigin | null {
  const [, runId, lineage] = /^mirror-([0-9a-f]{32})-([1-9]\d{0,9})-/.exec(attempt) ?? [];
  return runId === undefined ? null : { runId, lineage: Number(lineage) };
}

function attemptPrefix({ runId, lineage }: MirrorOrigin): string {
  return `mirror-${runId}-${lineage}-`;
}

/**
 * The start of the nonces of a mirror's payloads: it identifies the copied manifest. An object
 * appears whole or not at all, and only after every byte was compared with that manifest. So a
 * process that finds an object with this tag knows its content.
 */
export function payloadTag({ manifestSha256 }: Pick<CatalogCheckpoint, 'manifestSha256'>): string {
  return toHex(manifestSha256).slice(0, TAG_DIGITS);
}

/** A payload that a mirror has sent. */
export interface LeftPayload {
  readonly key: string;
  readonly writer: number;
  readonly name: string;
  readonly sizeBytes: number;
  readonly tag: string;
}

/** `null`: no mirror has written it. */
export function parseLeftPayload(key: string, sizeBytes: number): LeftPayload | null {
  const parsed = parsePayloadKey(key);
  if (parsed === null || parsed.nonce.length !== TAG_DIGITS + DRAWN_DIGITS) return null;
  const { writer, name, nonce } = parsed;
  return { key, writer, name, sizeBytes, tag: nonce.slice(0, TAG_DIGITS) };
}
