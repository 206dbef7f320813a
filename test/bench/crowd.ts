/**
 * `bench crowd`: what many writers of one checkpoint send to one prefix of S3, on paper. Requests
 * are counted with a store in memory, for 1,000 and for 2,000 writers. More are extrapolated: the
 * counts grow by a straight line. A model of the prefix tells how long they take.
 */

import { parseArgs } from 'node:util';
import { SeededRandom } from '@holdfast/testkit';
import type { Counted } from './counter.ts';
import { say } from './options.ts';
import { type Load, type Outcome, runLoad, S3_LIMITS } from './prefix-load.ts';
import { markdownTable, publish } from './results.ts';
import { MIB, parseShape } from './s3/shapes.ts';
import { ofWriters } from './scale-files.ts';

const COUNTED = [1000, 2000] as const;
const PART_SIZES_MIB = [8, 32, 64];
/** As an S3 client has by default for parts, and for all other requests. */
const PART_LANES = 16;
const SEED = 1;

export interface Step extends Load {
  readonly what: string;
}

interface Row {
  readonly writers: number;
  readonly step: Step;
  readonly outcome: Outcome;
}

/** Prints a table and writes `crowd.json` and `.md`. */
export async function benchCrowd(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      writers: { type: 'string', default: '1000,10000' },
      size: { type: 'string', default: '1GiB' },
      out: { type: 'string' },
    },
  });
  const sizeBytes = parseShape(`1x${values.size}`).fileBytes;
  const counted = [await ofWriters(COUNTED[0]), await ofWriters(COUNTED[1])] as const;
  const rows = values.writers.split(',').flatMap((text) => {
    const writers = Number(text);
    if (!(Number.isSafeInteger(writers) && writers >= 2))
      throw new Error(`--writers has "${text}"; it takes whole numbers from 2 on, as in 1000,10000`);
    return stepsOf(writers, sizeBytes, counted).map((step): Row => {
      const outcome = runLoad(step, S3_LIMITS, new SeededRandom(SEED));
      say(`${writers} writers, ${step.what}: ${outcome.seconds.toFixed(1)} s, ${outcome.refused} refused`);
      return { writers, step, outcome };
    });
  });
  const conditions = `${values.size} of each writer, one prefix of S3: ${S3_LIMITS.writesPerSecond} writes and ${S3_LIMITS.readsPerSecond} reads a second`;
  const markdown = `${conditions}\n\n${tableOf(rows)}\n`;
  publish('crowd', { markdown, json: { conditions, rows }, charts: {} }, values.out);
}

/** The steps of one checkpoint. Each begins when the one before has ended. */
export function stepsOf(
  writers: number,
  sizeBytes: number,
  counted: readonly [readonly Counted[], readonly Counted[]],
): Step[] {
  const of = (what: string, ofRow: (row: Counted) => number) => {
    const [low = 0, high = 0] = counted.map((rows) => {
      const row = rows.find((each) => each.what === `writers: ${what}`);
      if (row === undefined) throw new Error(`"${what}" was not counted`);
      return ofRow(row);
    });
    const slope = (high - low) / (COUNTED[1] - COUNTED[0]);
    return Math.round(low + slope * (writers - COUNTED[0]));
  };
  const writes = (what: string) => of(what, (row) => row.writes);
  const reads = (what: string) => of(what, (row) => row.requests - row.writes);
  const each = { clients: writers, lanes: 1 };
  const deliver = PART_SIZES_MIB.map((partMib): Step => {
    const parts = Math.ceil(sizeBytes / (partMib * MIB));
    // Begin and completion of the upload, and the receipt.
    const all = parts > 1 ? parts + 3 : 2;
    return { ...each, what: `deliver, parts of ${partMib} MiB`, reads: 0, writes: all, lanes: PART_LANES };
  });
  const looks = reads('save') - reads('join');
  const last = 'last save and commit';
  return [
    { ...each, what: 'join', reads: reads('join'), writes: writes('join') },
    ...deliver,
    { ...each, what: 'look whether all have delivered', reads: looks, writes: 0 },
    {
      ...{ clients: 1, what: 'commit, by the last one', lanes: PART_LANES },
      ...{ reads: reads(last) - reads('save'), writes: writes(last) - writes('save') },
    },
  ];
}

function tableOf(rows: readonly Row[]): string {
  const number = (value: number) => Math.round(value).toLocaleString('en');
  const cells = rows.map(({ writers, step, outcome }) => {
    const { clients, reads, writes } = step;
    const atLimit = Math.max(
      (clients * writes) / S3_LIMITS.writesPerSecond,
      (clients * reads) / S3_LIMITS.readsPerSecond,
    );
    return [
      number(writers),
      step.what,
      `${number(writes)} and ${number(reads)}`,
      atLimit.toFixed(1),
      outcome.seconds.toFixed(1),
      number(outcome.refused),
      number(outcome.connections),
    ];
  });
  const head = ['writers', 'step', 'writes and reads of each', 's at the limits', 's', '503s', 'connections'];
  return markdownTable(head, cells);
}
