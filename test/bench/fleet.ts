/**
 * `bench fleet`: finds and summarises 10,000 runs on MinIO, by the library and by the command.
 * Measures time, requests and memory.
 */

import { tmpdir } from 'node:os';
import { parseArgs } from 'node:util';
import { atATime, crc32c, createCheckpointManager, type ObjectStore, systemClock } from '@holdfast/core';
import { MemoryBucket, MemoryStore, ObservedStore, type StoreCall } from '@holdfast/core/store';
import { fleetOf } from '@holdfast/fleet';
import { openStore } from '@holdfast/stores';
import { MINIO } from '../servers/go-program.ts';
import { newBucketOf } from '../servers/s3-access.ts';
import { startMinio } from '../servers/s3-servers.ts';
import { builtCli } from './cli.ts';
import { inNewDirectory } from './in-new-directory.ts';
import { positive, say } from './options.ts';
import { isMet, machineText, markdownTable, publish, type Verdict, verdictTable } from './results.ts';
import { MIB } from './s3/shapes.ts';
import { spread } from './statistics.ts';

/** For 10,000 runs; in proportion for others. */
const WALL_S_MAX = 60;
const RUNS_OF_LIMIT = 10_000;
const RUNS_PER_TEAM = 100;
const CREATES_AT_A_TIME = 32;
const VERSIONS = [1, 2, 3];

interface FleetPass {
  readonly wallMs: number;
  readonly requestCount: number;
  readonly listCount: number;
  readonly readBytes: number;
  readonly commandMs: number;
  readonly commandCpuMs: number;
  readonly commandBytes: number;
}

/** Prints tables and writes `fleet.json` and `.md`. Resolves to false if the target was missed. */
export async function benchFleet(args: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: 'string', default: '3' },
      runs: { type: 'string', default: '10000' },
      dir: { type: 'string', default: tmpdir() },
      out: { type: 'string' },
      'from-sources': { type: 'boolean', default: false },
    },
  });
  const rounds = Math.ceil(positive('--rounds', values.rounds));
  const runCount = Number(values.runs);
  if (!(runCount >= 1 && runCount <= 100_000)) throw new Error('--runs takes a number from 1 to 100000');
  const cli = builtCli(values['from-sources']);
  return inNewDirectory(values.dir, async (directory) => {
    const passes: FleetPass[] = [];
    const server = await startMinio({ directory });
    try {
      const { uri, env } = await newBucketOf(server);
      await fill(await openStore(uri, env), runCount);
      for (let round = 0; round < rounds; round++) {
        const pass = await inProcess(await openStore(uri, env), runCount);
        const { wallMs, userMs, systemMs, peakRssBytes } = await cli.cost(['runs', uri, '--quiet'], env);
        const commandCpuMs = userMs + systemMs;
        passes.push({ ...pass, commandMs: wallMs, commandCpuMs, commandBytes: peakRssBytes });
        say(`round ${round + 1}: ${Math.round(pass.wallMs)} ms, the command ${Math.round(wallMs)} ms`);
      }
    } finally {
      await server.stop();
    }
    const conditions = `${machineText()}; ${MINIO.title} ${MINIO.version}, same machine; ${runCount} runs of ${VERSIONS.length} versions, ${RUNS_PER_TEAM} in each directory; ${rounds} rounds, median [min–max]`;
    const verdicts = verdictsOf(passes, runCount);
    const markdown = `${[conditions, verdictTable(verdicts), tableOf(passes, runCount)].join('\n\n')}\n`;
    publish('fleet', { markdown, json: { conditions, passes, verdicts }, charts: {} }, values.out);
    return verdicts.every(isMet);
  });
}

/** Copies of one run that was really saved: its catalog and one payload, which is never read. */
async function fill(store: ObjectStore, runCount: number): Promise<void> {
  const bucket = new MemoryBucket({ crc32c });
  await using manager = createCheckpointManager({ store: new MemoryStore(bucket) });
  for (const version of VERSIONS) await manager.save({ version, buffers: { a: new Uint8Array(1024) } });
  const source = new MemoryStore(bucket);
  const keys = bucket.keys();
  const copied = keys.filter((key) => key === 'run.json' || key.startsWith('catalog/'));
  const payload = keys.find((key) => key.endsWith('/a')) as string;
  const objects = await Promise.all([...copied, payload].map((key) => source.get(key, { maxBytes: MIB })));
  const runs = Array.from({ length: runCount }, (_, index) => {
    const team = String(Math.floor(index / RUNS_PER_TEAM)).padStart(4, '0');
    return `team-${team}/run-${String(index).padStart(6, '0')}`;
  });
  let doneCount = 0;
  await atATime(runs, CREATES_AT_A_TIME, async (run) => {
    for (const { key, bytes } of objects) await store.create(`${run}/${key}`, bytes);
    doneCount += 1;
    if (doneCount % 1000 === 0) say(`${doneCount} runs made`);
  });
  await store.close();
}

async function inProcess(
  store: ObjectStore,
  runCount: number,
): Promise<Omit<FleetPass, 'commandMs' | 'commandCpuMs' | 'commandBytes'>> {
  const calls: StoreCall[] = [];
  const observed = new ObservedStore(store, { clock: systemClock, onCall: (call) => calls.push(call) });
  const beganMs = performance.now();
  let found = 0;
  for await (const { state } of fleetOf([{ uri: store.uri, store: observed }]))
    if (state === 'ok') found += 1;
  const wallMs = performance.now() - beganMs;
  await store.close();
  if (found !== runCount) throw new Error(`${found} of ${runCount} runs were found`);
  return {
    wallMs,
    requestCount: calls.length,
    listCount: calls.filter(({ operation }) => operation.startsWith('list')).length,
    readBytes: calls.reduce((sum, { bytes }) => sum + bytes, 0),
  };
}

function verdictsOf(passes: readonly FleetPass[], runCount: number): Verdict[] {
  const limit = (WALL_S_MAX * runCount) / RUNS_OF_LIMIT;
  const values = passes.map(({ commandMs }) => commandMs / 1000);
  return [{ what: `holdfast runs on ${runCount} runs, s`, values, wanted: { atMost: limit } }];
}

function tableOf(passes: readonly FleetPass[], runCount: number): string {
  const row = (title: string, of: (pass: FleetPass) => number, digits = 0) => [
    title,
    spread(passes.map(of), digits),
  ];
  return markdownTable(
    ['what', 'value'],
    [
      row('library, s', ({ wallMs }) => wallMs / 1000, 1),
      row('command, s', ({ commandMs }) => commandMs / 1000, 1),
      row('CPU of the command, s', ({ commandCpuMs }) => commandCpuMs / 1000, 1),
      row('memory of the command, MiB', ({ commandBytes }) => commandBytes / MIB),
      row('requests', ({ requestCount }) => requestCount),
      row('requests for each run', ({ requestCount }) => requestCount / runCount, 2),
      row('list requests', ({ listCount }) => listCount),
      row('bytes read, MiB', ({ readBytes }) => readBytes / MIB, 1),
    ],
  );
}
