/** What a mirror copies, what is there already, and what an interrupted one has left to go on with. Pure. */

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
import { latestOf, onPath } from './state.ts';

/** Of a nonce, which has 32 at most. */
const TAG_DIGITS = 16;
/** After the tag: fresh each time, as in any nonce. */
export const DRAWN_DIGITS = 16;

/**
 * The live checkpoints that are wanted, ascending. `NotFound`: one that was asked for by its version is not there, or not live.
 * `InvalidArgument`: more than one way of choosing.
 */
export function selectForMirror(state: State, selection: MirrorSelection): CatalogCheckpoint[] {
  const { versions, since, latest } = selection;
  if ([versions, since, latest || undefined].filter((each) => each !== undefined).length > 1) {
    throw new CheckpointError('InvalidArgument', 'a mirror takes one of `versions`, `since` and `latest`');
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
  const have = newest === undefined ? 'nothing is there' : `the newest of ${live.length} is ${newest}`;
  throw new CheckpointError('NotFound', `there is no version ${missing} to mirror: ${have}`, {
    context: { version: missing },
  });
}

/** What a reader would notice of a checkpoint, gone through file by file. Memory: a digest for each writer. */
export class Content {
  readonly worldSize: number;
  readonly union = new Union();
  /** Of names, sizes and checksums in their order, by writer. */
  readonly #digests = new Map<number, string>();

  constructor(worldSize: number) {
    this.worldSize = worldSize;
  }

  /**
   * In the order of the writers, and of one writer in the order of its names. Each call of one writer
   * says the same empty directories.
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

/** In what a copy says something else; `undefined`: in nothing that a reader would notice. */
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
 * What the original was annotated with since its commit and the copy lacks; `undefined`: nothing. `saved`: the metrics of the
 * original's commit, so that a value which the copy alone was annotated with stays.
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

/** Whether nothing was annotated between two looks at one checkpoint. */
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

/** What a mirror copies from. Within one lineage a version is committed once, so the three together name one checkpoint. */
export interface MirrorOrigin {
  readonly runId: string;
  readonly lineage: number;
}

/**
 * The attempt of mirrors of one run. While it owns the destination, whoever mirrors the same run again goes on with it as a new life of
 * its writer, and so with what it has left; `nonce` makes another once it has passed.
 */
export function mirrorAttempt(origin: MirrorOrigin, nonce: string): string {
  return `${attemptPrefix(origin)}${nonce}`;
}

export function isMirrorAttempt(attempt: string, origin: MirrorOrigin): boolean {
  return attempt.startsWith(attemptPrefix(origin));
}

function attemptPrefix({ runId, lineage }: MirrorOrigin): string {
  return `mirror-${runId}-${lineage}-`;
}

/**
 * How the nonces of a mirror's payloads begin: with what they are copies of. An object appears whole or not at all, and only after every
 * byte of it was compared with that manifest: whoever finds one with this tag knows what is in it.
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
