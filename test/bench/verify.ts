/**
 * `bench verify`: cost of level 0 on MinIO for checkpoints of a thousand files. Measures time and
 * requests, and checks that no payload is read.
 */

import { tmpdir } from 'node:os';
import { parseArgs } from 'node:util';
import { createCheckpointManager, type RunManager, systemClock } from '@holdfast/core';
import { ObservedStore, type StoreCall } from '@holdfast/core/store';
import { openStore } from '@holdfast/stores';
import { MINIO } from '../servers/go-program.ts';
import { newBucketOf } from '../servers/s3-access.ts';
import { startMinio } from '../servers/s3-servers.ts';
import { inNewDirectory } from './in-new-directory.ts';
import { positive, say } from './options.ts';
import { isMet, machineText, markdownTable, publish, type Verdict, verdictTable } from './results.ts';
import { spread } from './statistics.ts';

const WALL_MS_MAX = 5000;

export interface VerifyRun {
  readonly level: 0 | 1 | 2;
  readonly wallMs: number;
  readonly requestCount: number;
  /** The requests among these that ask about one object. */
  readonly headCount: number;
  readonly payloadBytes: number;
  readonly storedChecksumCount: number;
}

export interface VerifyReport {
  readonly conditions: string;
  readonly fileCount: number;
  /** In the order of their rounds. */
  readonly runs: readonly VerifyRun[];
}

/** Prints tables and writes `verify.json` and `.md`. Resolves to false if a target was missed. */
export async function benchVerify(args: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: 'string', default: '5' },
      files: { type: 'string', default: '1000' },
      dir: { type: 'string', default: tmpdir() },
      out: { type: 'string' },
      'from-sources': { type: 'boolean', default: false }, // it always runs the sources
    },
  });
  const rounds = Math.ceil(positive('--rounds', values.rounds));
  const fileCount = Number(values.files);
  if (!(fileCount >= 1 && fileCount <= 100_000)) throw new Error('--files takes a number from 1 to 100000');
  return inNewDirectory(values.dir, async (directory) => {
    const runs = await measure({ directory, fileCount, rounds });
    const conditions = `${machineText()}; ${MINIO.title} ${MINIO.version}, same machine; ${fileCount} files of 4 KiB; ${rounds} rounds, median [min–max]`;
    const report: VerifyReport = { conditions, fileCount, runs };
    const verdicts = verifyVerdicts(report);
    const markdown = `${[conditions, verdictTable(verdicts), tableOf(report)].join('\n\n')}\n`;
    publish('verify', { markdown, json: { ...report, verdicts }, charts: {} }, values.out);
    return verdicts.every(isMet);
  });
}

async function measure(plan: { directory: string; fileCount: number; rounds: number }): Promise<VerifyRun[]> {
  const server = await startMinio({ directory: plan.directory });
  try {
    const { uri, env } = await newBucketOf(server);
    const calls: StoreCall[] = [];
    const open = async () => {
      const store = await openStore(uri, env);
      return createCheckpointManager({
        store: new ObservedStore(store, { clock: systemClock, onCall: (call) => calls.push(call) }),
      });
    };
    await using writer = await open();
    await writer.save({ version: 1, buffers: buffersOf(plan.fileCount) });
    const runs: VerifyRun[] = [];
    for (let round = 0; round < plan.rounds; round++) {
      for (const level of [0, 1, 2] as const) {
        // A new manager, which has no cached records and no open connection.
        await using manager = await open();
        runs.push(await verifyOnce(manager, level, calls));
      }
      say(`round ${round + 1}`);
    }
    return runs;
  } finally {
    await server.stop();
  }
}

async function verifyOnce(manager: RunManager, level: 0 | 1 | 2, calls: StoreCall[]): Promise<VerifyRun> {
  calls.length = 0;
  const beganMs = performance.now();
  const { problems, storedChecksumCount } = await manager.admin.verify({ level, record: false });
  const wallMs = performance.now() - beganMs;
  if (problems.length > 0) throw new Error(`what was just saved does not verify: ${problems[0]?.message}`);
  const reads = calls.filter(({ operation }) => operation === 'readInto');
  return {
    level,
    wallMs,
    requestCount: calls.length,
    headCount: calls.filter(({ operation }) => operation === 'head').length,
    payloadBytes: reads.reduce((sum, { bytes }) => sum + bytes, 0),
    storedChecksumCount,
  };
}

function buffersOf(fileCount: number): Record<string, Uint8Array> {
  const files = Array.from({ length: fileCount }, (_, index) => {
    const bytes = new Uint8Array(4096).fill(index & 0xff);
    new DataView(bytes.buffer).setUint32(0, index);
    return [`shard-${String(index).padStart(6, '0')}.bin`, bytes] as const;
  });
  return Object.fromEntries(files);
}

export function verifyVerdicts({ runs, fileCount }: VerifyReport): Verdict[] {
  const first = runs.filter(({ level }) => level === 0);
  const values = (of: (run: VerifyRun) => number) => first.map(of);
  return [
    { what: 'level 0: wall time, ms', values: values((run) => run.wallMs), wanted: { atMost: WALL_MS_MAX } },
    // A hard limit, so no round may exceed it.
    {
      what: 'level 0: payload bytes read, most of all rounds',
      values: [Math.max(...values((run) => run.payloadBytes))],
      wanted: { atMost: 0 },
    },
    {
      what: 'level 0: files whose stored checksum was compared',
      values: values((run) => run.storedChecksumCount),
      wanted: { atLeast: fileCount },
    },
  ];
}

function tableOf({ runs }: VerifyReport): string {
  const rows = ([0, 1, 2] as const).map((level) => {
    const of = (value: (run: VerifyRun) => number) =>
      spread(runs.filter((run) => run.level === level).map(value), 0);
    return [
      `level ${level}`,
      of((run) => run.wallMs),
      of((run) => run.requestCount),
      of((run) => run.headCount),
      of((run) => run.payloadBytes),
    ];
  });
  return markdownTable(['what', 'wall ms', 'requests', 'of these heads', 'payload bytes'], rows);
}
