/**
 * Claims record which incarnation of its writer a process is, and which trainer's life it serves.
 */

import { atATime } from '../../contract/at-a-time.ts';
import { CheckpointError } from '../../contract/errors.ts';
import {
  type Claim,
  claimKey,
  claimPrefix,
  claimsOfWriterPrefix,
  decodeRecord,
  encodeRecord,
  parseClaimKey,
  UINT32_MAX,
  type WriterIncarnation,
} from '../../format/index.ts';
import type { RunParts } from './parts.ts';
import { newId } from './record-io.ts';
import { createRecord, getOrNull } from './records.ts';

const READ_AT_ONCE = 16;

/** The lineage, epoch and writer that a claim is for. */
export interface ClaimPlace {
  readonly lineage: number;
  readonly epoch: number;
  readonly writer: number;
}

export interface Claimed {
  readonly incarnation: number;
  /** This call made the claim. Otherwise another process of the same life made it. */
  readonly isNew: boolean;
}

/**
 * Determines the incarnation of a process. If the highest claim belongs to its life, the process
 * shares that claim. Otherwise it claims the next incarnation. If that claim exists already,
 * another process was faster, perhaps one of the same life. Then the claims are listed again.
 *
 * `Fenced`: the life made a claim before a rollback, or only below the highest claim. In the second
 * case a later life has replaced it.
 */
export async function claim(
  run: RunParts,
  place: ClaimPlace,
  life: string | undefined,
  signal: AbortSignal,
): Promise<Claimed> {
  for (;;) {
    const found = await findClaim(run, place, life, signal);
    if (found.isOwn) return { incarnation: found.highest, isNew: false };
    if (found.highest === UINT32_MAX) throw noneLeft(run, place);
    const incarnation = found.highest + 1;
    if (await create(run, { ...place, incarnation }, life, signal)) return { incarnation, isNew: true };
  }
}

/** No writer starts so often. A forged claim may have the highest number. */
function noneLeft({ store }: RunParts, { writer }: ClaimPlace): CheckpointError {
  const message = `no process is left for writer ${writer}: ${UINT32_MAX}, the highest number, is claimed`;
  return new CheckpointError('Conflict', message, { context: { store: store.uri, writer } });
}

/**
 * The incarnation that the processes of a life share. `null`: the life has no claim yet. `Fenced`
 * as in `claim`.
 */
export async function ownClaim(
  run: RunParts,
  place: ClaimPlace,
  life: string,
  signal: AbortSignal,
): Promise<number | null> {
  const { highest, isOwn } = await findClaim(run, place, life, signal);
  return isOwn ? highest : null;
}

/** `highest` is −1 if the writer has no claim here. */
async function findClaim(
  run: RunParts,
  place: ClaimPlace,
  life: string | undefined,
  signal: AbortSignal,
): Promise<{ highest: number; isOwn: boolean }> {
  if (life !== undefined) await assertNotRolledBack(run, place, life, signal);
  const [highest = -1, ...lower] = await listIncarnations(run, place, signal);
  if (life === undefined || highest === -1) return { highest, isOwn: false };
  if ((await lifeOf(run, { ...place, incarnation: highest }, signal)) === life)
    return { highest, isOwn: true };
  await assertNotSuperseded(run, place, { life, lower }, signal);
  return { highest, isOwn: false };
}

async function create(
  run: RunParts,
  place: ClaimPlace & WriterIncarnation,
  life: string | undefined,
  signal: AbortSignal,
): Promise<boolean> {
  const { writer, incarnation } = place;
  const { host, pid } = run.process;
  const value = { writer, incarnation, nonce: newId(run), host, pid, life: life ?? '' };
  const { bytes } = encodeRecord('claim', { format: undefined, ...value });
  return (await createRecord(run, claimKey(place), bytes, signal)).isOurs;
}

/**
 * A life from an earlier lineage holds the state that the rollback discarded. Its saves must not
 * follow the checkpoint that the rollback went back to.
 */
async function assertNotRolledBack(
  run: RunParts,
  place: ClaimPlace,
  life: string,
  signal: AbortSignal,
): Promise<void> {
  const lineages = Array.from({ length: place.lineage - 1 }, (_, index) => index + 1);
  const found = await atATime(lineages, READ_AT_ONCE, async (lineage) => {
    const former = { ...place, lineage };
    const incarnations = await listIncarnations(run, former, signal);
    return isAmong(run, former, { life, incarnations }, signal);
  });
  if (!found.includes(true)) return;
  const message = `life "${life}" of writer ${place.writer} began before the run was rolled back, and its state is left behind`;
  throw refusal(run, place, 'rollback', message);
}

async function assertNotSuperseded(
  run: RunParts,
  place: ClaimPlace,
  { life, lower }: { life: string; lower: readonly number[] },
  signal: AbortSignal,
): Promise<void> {
  if (!(await isAmong(run, place, { life, incarnations: lower }, signal))) return;
  const message = `another life of writer ${place.writer} has replaced life "${life}"`;
  throw refusal(run, place, 'process', message);
}

function refusal(
  { store }: RunParts,
  { writer }: ClaimPlace,
  overtakenBy: 'rollback' | 'process',
  message: string,
): CheckpointError {
  return new CheckpointError('Fenced', message, { context: { store: store.uri, writer, overtakenBy } });
}

async function isAmong(
  run: RunParts,
  place: ClaimPlace,
  { life, incarnations }: { life: string; incarnations: readonly number[] },
  signal: AbortSignal,
): Promise<boolean> {
  const lives = await atATime(incarnations, READ_AT_ONCE, (incarnation) =>
    lifeOf(run, { ...place, incarnation }, signal),
  );
  return lives.includes(life);
}

async function lifeOf(
  run: RunParts,
  place: ClaimPlace & WriterIncarnation,
  signal: AbortSignal,
): Promise<string | undefined> {
  return (await readClaim(run, place, signal))?.life;
}

/** `null`: a sweep has deleted the claim, because its epoch has passed. */
export async function readClaim(
  run: RunParts,
  place: ClaimPlace & WriterIncarnation,
  signal: AbortSignal,
): Promise<Claim | null> {
  const key = claimKey(place);
  const bytes = await getOrNull(run.records, key, signal);
  return bytes && decodeRecord('claim', bytes, { key, store: run.store.uri });
}

/** The incarnations of one writer, highest first. One list page per 1,000. */
async function listIncarnations(run: RunParts, place: ClaimPlace, signal: AbortSignal): Promise<number[]> {
  const claims = await listBelow(run, claimsOfWriterPrefix(place), signal);
  return claims.map(({ incarnation }) => incarnation).sort((a, b) => b - a);
}

export interface ListedClaim extends WriterIncarnation {
  readonly createdAtMs: number;
  readonly storeTimeMs: number;
}

/** Every incarnation of every writer in an epoch. */
export function listClaims(
  run: RunParts,
  at: { lineage: number; epoch: number; signal: AbortSignal | undefined },
): Promise<ListedClaim[]> {
  return listBelow(run, claimPrefix(at.lineage, at.epoch), at.signal);
}

async function listBelow(
  run: RunParts,
  prefix: string,
  signal: AbortSignal | undefined,
): Promise<ListedClaim[]> {
  const claims: ListedClaim[] = [];
  for await (const page of run.records.list(prefix, { signal })) {
    for (const object of page.objects) {
      const found = parseClaimKey(object.key);
      if (found) claims.push({ ...found, createdAtMs: object.createdAtMs, storeTimeMs: page.storeTimeMs });
    }
  }
  return claims;
}

export function highestOfEach(claims: readonly WriterIncarnation[]): WriterIncarnation[] {
  const highest = new Map<number, number>();
  for (const { writer, incarnation } of claims) {
    highest.set(writer, Math.max(incarnation, highest.get(writer) ?? 0));
  }
  return [...highest].map(([writer, incarnation]) => ({ writer, incarnation }));
}
