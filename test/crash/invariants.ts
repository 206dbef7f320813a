/** Checks the invariants of a run from outside, as a later process would see it. */

import { crc32c, createCheckpointManager, idText, type RunManager } from '@holdfast/core';
import type { ObjectStore } from '@holdfast/core/contract';
import { type MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { filledBytes } from '../filled-bytes.ts';
import { wholeCheckpoints } from './raw-pages.ts';
import { type RawShare, rawShares } from './raw-shares.ts';

/** Settings of healthy processes. */
export const SETTINGS = {
  bufferBytes: 16 * 1024 * 1024,
  partSizeBytesMin: 64 * 1024,
  retryDelayMsBase: 1,
  retryDelayMsMax: 4,
};

/** Settings of the victim, which gives up soon when it gets no answer. */
export const VICTIM_SETTINGS = { ...SETTINGS, recordTimeoutMs: 60, stallTimeoutMs: 20 };

/** The result of one save, as the process received it. */
export interface Told {
  readonly attempt: string;
  readonly writer: number;
  readonly version: bigint;
  /** `committed`, or the code of the error. */
  readonly outcome: string;
}

/** A run as a later process sees it. */
export interface RunView {
  /** Broken promises that the store itself has detected. */
  readonly violations: readonly string[];
  /** All keys, ascending. */
  keys(): readonly string[];
  /** Bytes of a record. */
  read(key: string): Uint8Array | undefined;
  /** Uploads in parts that are neither completed nor aborted. */
  openUploads(): readonly { readonly key: string; readonly token: string; readonly partCount: number }[];
  /** Opens a healthy client of the store. */
  openStore(): ObjectStore;
}

export function viewOfBucket(bucket: MemoryBucket): RunView {
  return {
    violations: bucket.violations,
    keys: () => bucket.keys(),
    read: (key) => bucket.find(key)?.bytes,
    openUploads: () =>
      bucket.openUploads().map(({ key, token, parts }) => ({ key, token, partCount: parts.size })),
    openStore: () => new MemoryStore(bucket),
  };
}

/** Names and bytes of a writer's files. One of them, `tag`, contains the attempt. */
export type FilesOf = (attempt: string, version: bigint, writer: number) => Record<string, Uint8Array>;

const made = new Map<string, Record<string, Uint8Array>>();

/**
 * Names and bytes of a writer's files. Every attempt, version and writer writes different bytes, so
 * that a mix is detected.
 */
export function filesOf(attempt: string, version: bigint, writer: number): Record<string, Uint8Array> {
  const name = `${attempt}/${version}/${writer}`;
  const seed = crc32c(new TextEncoder().encode(name));
  const files = made.get(name) ?? {
    [`w${writer}/two-parts.bin`]: filledBytes(
      70_000,
      (index) => (Math.imul(index, 2654435761) ^ seed) >>> 24,
    ),
    [`w${writer}/tag`]: new TextEncoder().encode(attempt),
  };
  made.set(name, files);
  return files;
}

/**
 * A stored record as plain JSON, because the checks must not depend on the code that they check.
 */
function record(run: RunView, key: string): Record<string, unknown> {
  const bytes = run.read(key);
  if (!bytes) throw new Error(`I1: ${key} is missing`);
  return JSON.parse(new TextDecoder().decode(bytes)) as Record<string, unknown>;
}

interface CatalogView {
  readonly live: { readonly version: bigint; readonly epoch: number; readonly manifestKey: string }[];
  readonly latest: bigint | null;
  readonly entries: number;
}

interface Decision {
  readonly id: string;
  readonly kind: string;
  readonly checkpoint?: { readonly epoch: number };
}

function readCatalog(run: RunView): CatalogView {
  const keys = run.keys().filter((key) => key.startsWith('catalog/'));
  let parent: unknown = '';
  let epoch = 0;
  const seen = new Set<string>();
  for (const [index, key] of keys.entries()) {
    const entry = record(run, key);
    if (Number(entry.seq) !== index + 1) throw new Error(`I0: ${key} says seq ${entry.seq}`);
    if ((entry.parentId ?? '') !== parent) throw new Error(`I0: ${key} does not follow its predecessor`);
    parent = entry.entryId;
    const { id, kind, checkpoint } = entry.transaction as Decision;
    if (seen.has(id)) throw new Error(`I4: ${key} repeats a transaction`);
    seen.add(id);
    if (kind === 'commit' && checkpoint?.epoch !== epoch)
      throw new Error(`I5: ${key} commits for epoch ${checkpoint?.epoch} in epoch ${epoch}`);
    epoch = Number((entry.state as { epoch: number }).epoch);
  }
  const last = keys.at(-1);
  const state = last ? (record(run, last).state as Record<string, unknown>) : {};
  const raw = state as { checkpoints?: { id: Record<string, string>; manifestKey: string }[] };
  const checkpoints = wholeCheckpoints(raw, (key) => {
    const bytes = run.read(key);
    return bytes && new TextDecoder().decode(bytes);
  });
  const latest = state.latest as { version?: string } | undefined;
  return {
    live: checkpoints.map(({ id, manifestKey }) => ({
      version: BigInt(id.version ?? 0),
      epoch: Number(id.epoch),
      manifestKey,
    })),
    latest: latest ? BigInt(latest.version ?? 0) : null,
    entries: keys.length,
  };
}

/**
 * Throws an error with the number of the violated invariant. `written` returns the files that each
 * writer was given to save.
 */
export async function checkInvariants(
  run: RunView,
  told: readonly Told[],
  written: FilesOf = filesOf,
): Promise<void> {
  if (run.violations.length > 0) throw new Error(`I8: ${run.violations.join('; ')}`);
  checkUploadRecords(run);
  const catalog = readCatalog(run);
  const versions = catalog.live.map((checkpoint) => checkpoint.version);
  if (new Set(versions).size !== versions.length)
    throw new Error(`I4: a version is committed twice: ${versions}`);
  const highest = versions.reduce<bigint | null>(
    (high, each) => (high === null || each > high ? each : high),
    null,
  );
  if (catalog.latest !== highest)
    throw new Error(`I2: latest is ${catalog.latest}, the highest is ${highest}`);

  await using manager = createCheckpointManager({ store: run.openStore(), settings: SETTINGS });
  for (const { version, manifestKey } of catalog.live) {
    const owners = await restoreAndIdentify(manager, version, written);
    const shares = rawShares(manifestKey, (key) => record(run, key));
    checkLives(version, shares, ownPrefix(manifestKey));
    checkTold(told, version, owners);
  }
  for (const { version, outcome, attempt } of told) {
    if (outcome === 'committed' && !versions.includes(version)) {
      throw new Error(`I7: ${attempt} was told that ${version} is committed, but it is not`);
    }
  }
}

/** Prefix of a checkpoint's own payloads. */
function ownPrefix(manifestKey: string): string {
  return manifestKey.slice(0, manifestKey.lastIndexOf('/') + 1);
}

/**
 * Checks that a life delivers only payloads that it sent itself. For a file in parts it may have
 * resumed an upload of an earlier life. Unchanged files belong to other checkpoints and may come
 * from any life.
 */
function checkLives(version: bigint, shares: readonly RawShare[], prefix: string): void {
  for (const { writer, incarnation, files } of shares) {
    for (const { key, sizeBytes = 0, partSizeBytes = 0 } of files) {
      if (!key.startsWith(prefix)) continue;
      const life = key.split('/')[2] ?? '';
      const [index, ofLife] = (life.split('-')[0] ?? '').split('.').map(Number);
      const isInParts = Number(sizeBytes) > Number(partSizeBytes);
      const isOwn = ofLife === incarnation || (isInParts && Number(ofLife) < incarnation);
      if (isCopy(life) || (index === writer && isOwn)) continue;
      throw new Error(`I6: version ${version} has ${key} as of life ${incarnation} of writer ${writer}`);
    }
  }
}

/**
 * The nonce of a mirrored payload identifies its source, so another life may resume that copy. Such
 * a nonce has all 32 digits.
 */
function isCopy(lifeAndNonce: string): boolean {
  return /-[0-9a-f]{32}$/.test(lifeAndNonce);
}

/**
 * Checks that every upload with parts has a record. A process records an upload before it sends a
 * part and keeps the record as long as the upload. Otherwise the parts could never be found.
 */
function checkUploadRecords(run: RunView): void {
  const keys = run.keys().filter((key) => key.startsWith('uploads/'));
  const recorded = new Set(keys.map((key) => record(run, key).token));
  for (const { key, token, partCount } of run.openUploads()) {
    if (partCount > 0 && !recorded.has(token))
      throw new Error(`I10: the upload of ${key} has parts and no record`);
  }
}

/**
 * Restores a version completely. Resolves to the attempt that wrote each writer's files. Throws on
 * bytes that no attempt wrote.
 */
async function restoreAndIdentify(
  manager: RunManager,
  version: bigint,
  written: FilesOf,
): Promise<Map<number, string>> {
  const checkpoint = await manager.get(version);
  if (!checkpoint) throw new Error(`I1: version ${version} is in the catalog but cannot be had`);
  const { files, id } = await checkpoint.details();
  const to = Object.fromEntries(files.map((file) => [file.name, new Uint8Array(file.sizeBytes)]));
  await manager.restore({ version, to });
  const owners = new Map<number, string>();
  for (const writer of new Set(files.map((file) => file.writer))) {
    const attempt = new TextDecoder().decode(to[`w${writer}/tag`]);
    for (const [name, bytes] of Object.entries(written(attempt, version, writer))) {
      if (Buffer.compare(to[name] ?? new Uint8Array(), bytes) !== 0)
        throw new Error(`I9: ${name} of ${idText(id)} is wrong`);
    }
    owners.set(writer, attempt);
  }
  if (new Set(owners.values()).size > 1)
    throw new Error(`I6: ${idText(id)} mixes attempts: ${[...owners.values()]}`);
  return owners;
}

/** Checks that the reports about this committed version are true. */
function checkTold(told: readonly Told[], version: bigint, owners: ReadonlyMap<number, string>): void {
  for (const each of told.filter((other) => other.version === version)) {
    const isIn = owners.get(each.writer) === each.attempt;
    const saysNo = each.outcome === 'Fenced' || each.outcome === 'Conflict';
    if (each.outcome === 'committed' && !isIn) {
      throw new Error(
        `I7: ${each.attempt} was told that its ${version} is committed, but it is ${owners.get(each.writer)}'s`,
      );
    }
    // Another life of the same writer in the same attempt may have delivered identical bytes.
    // `Fenced` is true in that case too.
    if (
      saysNo &&
      isIn &&
      !told.some((other) => other !== each && other.attempt === each.attempt && other.writer === each.writer)
    ) {
      throw new Error(`I7: ${each.attempt} was told ${each.outcome} of ${version}, but its files are in it`);
    }
  }
}
