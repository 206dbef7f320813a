/** Measures latency, and throughput in both directions. */

import { crc32c } from '@holdfast/core';
import type { PartReceipt, Upload } from '@holdfast/core/contract';
import { expectRead, type PatientClient, partSizeNear } from '@holdfast/testkit';
import { formatBriefDuration, formatBytes, formatDuration, formatRate } from '../format.ts';
import type { Check, Outcome } from './check.ts';
import type { Probe } from './probe.ts';

const MIB = 1024 * 1024;

const ROUND_TRIPS = 20;
const ROUND_TRIPS_MS_MAX = 3000;
const SLOW_CREATE_MS = 1000;
/**
 * Within one region a read takes tens of milliseconds. From another continent it takes at least
 * this long.
 */
const FAR_GET_MS = 150;

const EACH_WAY_MS = 3000;
const EACH_WAY_BYTES_MAX = 256 * MIB;
const PART_BYTES = 8 * MIB;
const IN_FLIGHT_MAX = 8;
const SLOW_BYTES_PER_SECOND = 1 * MIB;
/** Shorter measurements are useless: they end before the transfer is at full speed. */
const TELLING_MS = 1000;

export const speedChecks: readonly Check[] = [
  {
    id: 'round-trip',
    title: 'round trip',
    needs: ['may-create', 'may-read'],
    meaning: 'the time of a small request is not known',
    advice: 'run holdfast doctor again when the store is less busy',
    isAboutComfort: true,
    run: roundTrip,
  },
  {
    id: 'throughput',
    title: 'throughput',
    needs: ['multipart'],
    meaning: 'the time of a checkpoint is not known',
    advice: 'run holdfast doctor again when the store is less busy, or with a longer --timeout',
    isAboutComfort: true,
    isLong: true,
    run: throughput,
  },
];

const SLOW = {
  meaning: 'every save makes some requests in sequence, so each save takes seconds longer',
  advice: 'use a store that is closer to the job',
};
const FAR = {
  meaning: 'the store is far away or busy, and every save and restore makes some requests in sequence',
  advice: 'use a bucket in the region of the job',
};

async function roundTrip(probe: Probe): Promise<Outcome> {
  const { clock } = probe;
  const client = await probe.client();
  const createsMs: number[] = [];
  const getsMs: number[] = [];
  const beganMs = clock.monotonicMs();
  for (let n = 0; n < ROUND_TRIPS && (n < 3 || clock.monotonicMs() - beganMs < ROUND_TRIPS_MS_MAX); n += 1) {
    const key = probe.key(`object-${n}`);
    const bytes = probe.bytes(100);
    createsMs.push(await timed(probe, () => client.create(key, bytes)));
    getsMs.push(await timed(probe, () => client.get(key)));
  }
  const [createMs, getMs] = [median(createsMs), median(getsMs)];
  const seen = `get ${formatBriefDuration(getMs)}, create ${formatBriefDuration(createMs)} (median of ${getsMs.length})`;
  const figures = { getMs: rounded(getMs), createMs: rounded(createMs) };
  if (createMs > SLOW_CREATE_MS) return { seen, figures, concern: SLOW };
  return getMs > FAR_GET_MS ? { seen, figures, concern: FAR } : { seen, figures };
}

async function timed({ clock }: Probe, call: () => Promise<unknown>): Promise<number> {
  const beganMs = clock.monotonicMs();
  await call();
  return clock.monotonicMs() - beganMs;
}

/** For an even count, the higher of the two middle values. */
function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;
}

/** Rounds to microseconds. */
function rounded(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}

async function throughput(probe: Probe): Promise<Outcome> {
  const client = await probe.client();
  const { maxParts, preferredPartConcurrency } = client.capabilities;
  const partSizeBytes = partSizeNear(PART_BYTES, client);
  const inFlight = Math.min(IN_FLIGHT_MAX, preferredPartConcurrency);
  const partCountMax = Math.min(maxParts, Math.max(inFlight, Math.floor(EACH_WAY_BYTES_MAX / partSizeBytes)));
  const key = probe.key('object');
  const source = pagesOf(partSizeBytes);
  source.set(probe.bytes(partSizeBytes));
  const plan = { probe, inFlight, partCountMax };

  const upload = await client.beginUpload(key, partSizeBytes);
  const up = await measure(plan, () => (index) => client.putPart(upload, index, source));
  const completeMs = await timed(probe, () => complete(client, upload, up.results, source));
  const upRate = (up.results.length * partSizeBytes * 1000) / (up.durationMs + completeMs);

  const down = await measure({ ...plan, partCountMax: up.results.length }, () => {
    const buffer = pagesOf(partSizeBytes);
    return async (index) => {
      const read = async () => buffer.subarray(0, await client.readInto(key, index * partSizeBytes, buffer));
      await expectRead(read, { bytes: source, what: 'a part that was read back' });
    };
  });
  const downRate = (down.results.length * partSizeBytes * 1000) / down.durationMs;
  const isTelling = up.durationMs + completeMs + down.durationMs >= TELLING_MS;
  return outcomeOf({ upRate, downRate, inFlight, partSizeBytes }, isTelling);
}

interface Measured<T> {
  /** By index, without a gap. */
  readonly results: T[];
  readonly durationMs: number;
}

/** Repeats an operation for some seconds, `inFlight` at a time, each lane with its own worker. */
async function measure<T>(
  { probe, inFlight, partCountMax }: { probe: Probe; inFlight: number; partCountMax: number },
  newDoer: () => (index: number) => Promise<T>,
): Promise<Measured<T>> {
  const { clock } = probe;
  const results: T[] = [];
  let next = 0;
  const beganMs = clock.monotonicMs();
  const work = async () => {
    const doOne = newDoer();
    while (next < partCountMax && clock.monotonicMs() - beganMs < EACH_WAY_MS) {
      const index = next++;
      results[index] = await doOne(index);
    }
  };
  await Promise.all(Array.from({ length: inFlight }, work));
  return { results, durationMs: Math.max(1, clock.monotonicMs() - beganMs) };
}

function complete(
  client: PatientClient,
  upload: Upload,
  receipts: readonly PartReceipt[],
  part: Uint8Array,
): Promise<unknown> {
  const sizeBytes = receipts.length * part.byteLength;
  return client.complete(upload, receipts, {
    sizeBytes,
    crc32c: receipts.reduce((crc) => crc32c(part, crc), 0),
  });
}

interface Rates {
  readonly upRate: number;
  readonly downRate: number;
  readonly inFlight: number;
  readonly partSizeBytes: number;
}

function outcomeOf({ upRate, downRate, inFlight, partSizeBytes }: Rates, isTelling: boolean): Outcome {
  const how = `${inFlight} × ${formatBytes(partSizeBytes)}`;
  const seen = `${formatRate(upRate)} up, ${formatRate(downRate)} down (${how})`;
  const figures = {
    uploadBytesPerSecond: Math.round(upRate),
    downloadBytesPerSecond: Math.round(downRate),
    inFlight,
    partSizeBytes,
  };
  const slowest = Math.min(upRate, downRate);
  if (slowest >= SLOW_BYTES_PER_SECOND || !isTelling) return { seen, figures };
  const tookMs = (10 * 1024 * MIB * 1000) / slowest;
  return {
    seen,
    figures,
    concern: {
      meaning: `a checkpoint of 10 GiB would take ${formatDuration(tookMs)} one way`,
      advice: 'use a store that is closer to the job, or a faster network',
    },
  };
}

// Declares the used part of `WebAssembly`, which the language's own types lack.
declare const WebAssembly: {
  readonly Memory: new (pages: { initial: number; maximum: number }) => { readonly buffer: ArrayBuffer };
};

/** Page-aligned memory: stores can send it without a copy. */
function pagesOf(sizeBytes: number): Uint8Array {
  const pages = Math.ceil(sizeBytes / (64 * 1024));
  return new Uint8Array(new WebAssembly.Memory({ initial: pages, maximum: pages }).buffer, 0, sizeBytes);
}
