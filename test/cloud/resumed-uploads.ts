/**
 * A process is killed in the middle of a large file. The next process of the same writer saves the
 * same version.
 */

import { largeFilesOf } from '../crash/large-files.ts';
import { Writer } from '../crash/writer.ts';
import type { SaveOrder } from '../crash/writer-messages.ts';

const MIB = 1024 * 1024;
/** The smallest part size that every provider accepts. */
const PART_BYTES = 5 * MIB;
const SIZE_BYTES = 64 * MIB;
const PART_COUNT = Math.ceil(SIZE_BYTES / PART_BYTES);
/** Number of part calls before the one that kills, about 60 % of the file. */
const SENT_BEFORE = Math.round(PART_COUNT * 0.6);
/** Number of parts in the memory of a writer process. */
const IN_FLIGHT_MAX = 4;

const ORDER = {
  ...{ attempt: 'job-0', index: 0, count: 1, version: 1n },
  ...{ largeBytes: SIZE_BYTES, partSizeBytes: PART_BYTES },
} as const satisfies Partial<SaveOrder>;

/** The files of the writer, by name. */
export function filesOfResumed(attempt: string, version: bigint, writer: number): Record<string, Uint8Array> {
  return largeFilesOf(attempt, version, writer, SIZE_BYTES);
}

/**
 * Throws unless the second process reports a commit and repeats only the parts that were in flight.
 */
export async function playKilledAndResumed(
  run: Pick<SaveOrder, 'uri'>,
  env: Readonly<Record<string, string>>,
) {
  const [killed, next] = [new Writer(env), new Writer(env)];
  try {
    const order: SaveOrder = { ...ORDER, uri: run.uri };
    const at = { operation: 'putPart', key: /large$/, skip: SENT_BEFORE } as const;
    const told = await killed.save({ ...order, halt: { signal: 'SIGKILL', moment: 'before', at } }).told;
    if (told !== undefined) throw new Error(`it was not killed, but told ${told.outcome}: ${told.message}`);
    if ((await killed.ended) !== 'SIGKILL') throw new Error('it ended by itself');

    const answer = await next.save(order).told;
    if (answer?.outcome !== 'committed')
      throw new Error(`I10: the next process was told ${answer?.outcome}: ${answer?.message}`);
    const sent = answer.calls.filter((call) => call === 'putPart').length;
    const sentMax = PART_COUNT - SENT_BEFORE + IN_FLIGHT_MAX;
    if (sent > sentMax)
      throw new Error(`${sent} of ${PART_COUNT} parts were sent again; ${SENT_BEFORE} had been sent before`);
    const began = answer.calls.filter((call) => call === 'beginUpload').length;
    if (began > 0) throw new Error('the upload that was left was not resumed');
  } finally {
    await Promise.all([killed.end(), next.end()]);
  }
}
