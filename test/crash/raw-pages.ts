/**
 * Reads the checkpoints of a catalog entry and its pages from the store, independently of the
 * engine. Throws an error with the number of the invariant if a page is missing, was replaced, or
 * differs from its reference.
 */

import { createHash } from 'node:crypto';

interface RawCheckpoint {
  readonly id: { readonly lineage?: number; readonly epoch?: number; readonly version?: string };
  readonly state?: string;
  readonly verified?: boolean;
  readonly rolledBack?: boolean;
}

interface RawRef {
  readonly seq: string;
  readonly sha256: string;
  readonly count: number;
  readonly liveCount?: number;
  readonly liveVerifiedCount?: number;
  readonly livePathCount?: number;
}

interface RawPages<T> {
  readonly checkpoints?: readonly T[];
  readonly pages?: readonly RawRef[];
}

/**
 * `textOf` returns the bytes of an object as text, or `undefined` if it does not exist. The result
 * is in order of commit.
 */
export function wholeCheckpoints<T extends RawCheckpoint>(
  { checkpoints = [], pages = [] }: RawPages<T>,
  textOf: (key: string) => string | undefined,
): T[] {
  const paged = pages.flatMap((ref) => readPage<T>(ref, textOf));
  const all = [...paged, ...checkpoints].sort(
    (a, b) =>
      (a.id.lineage ?? 0) - (b.id.lineage ?? 0) ||
      Number(BigInt(a.id.version ?? 0) - BigInt(b.id.version ?? 0)),
  );
  const ids = new Set(all.map(({ id }) => JSON.stringify(id)));
  if (ids.size !== all.length) throw new Error('I4: a checkpoint is listed twice, in pages or beside them');
  return all;
}

function readPage<T extends RawCheckpoint>(ref: RawRef, textOf: (key: string) => string | undefined): T[] {
  const digest = Buffer.from(ref.sha256, 'base64');
  const key = `pages/${ref.seq.padStart(20, '0')}-${digest.toString('hex').slice(0, 16)}.json`;
  const text = textOf(key);
  if (text === undefined) throw new Error(`I1: the catalog refers to ${key}, which is gone`);
  if (!createHash('sha256').update(text).digest().equals(digest))
    throw new Error(`I1: ${key} is another page`);
  const { checkpoints } = JSON.parse(text) as { checkpoints: T[] };
  const live = checkpoints.filter(({ state }) => state === 'LIVE');
  const found = [
    checkpoints.length,
    live.length,
    live.filter(({ verified }) => verified).length,
    live.filter(({ rolledBack }) => !rolledBack).length,
  ];
  const said = [ref.count, ref.liveCount ?? 0, ref.liveVerifiedCount ?? 0, ref.livePathCount ?? 0];
  if (`${found}` !== `${said}`) throw new Error(`I3: ${key} holds ${found}, its reference says ${said}`);
  return checkpoints;
}
