/**
 * `bench resume`: kills a save at 60 % of a file. The next process of the same attempt saves the
 * file again. Measures how many bytes are sent twice.
 */

import { spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { newAzureContainer } from '../servers/azure-access.ts';
import { AZURITE_TITLE, startAzurite } from '../servers/azure-server.ts';
import { newGcsBucket } from '../servers/gcs-access.ts';
import { startFakeGcs } from '../servers/gcs-server.ts';
import { FAKE_GCS, MINIO } from '../servers/go-program.ts';
import { newBucketOf } from '../servers/s3-access.ts';
import { startMinio } from '../servers/s3-servers.ts';
import { builtCli, type Cli } from './cli.ts';
import { inNewDirectory } from './in-new-directory.ts';
import { chosen, positive, say } from './options.ts';
import { isMet, machineText, markdownTable, publish, type Verdict, verdictTable } from './results.ts';
import { assertRoom } from './room.ts';
import { makePattern, parseShape, type Shape, writeFiles } from './s3/shapes.ts';
import { spread } from './statistics.ts';

const STORES = ['local', 'MinIO', 'fake-gcs', 'Azurite'] as const;
type StoreName = (typeof STORES)[number];

const KILLED_AT_SHARE = 0.6;
/** Allows for the missing bytes and for those in flight. */
const SENT_AGAIN_SHARE_MAX = 0.45;

export interface ResumeRun {
  readonly store: StoreName;
  readonly round: number;
  /** Share of the file that the store had at the kill, as far as the first process knew. */
  readonly doneShare: number;
  /** Share of the file that the second process sent. */
  readonly sentAgainShare: number;
  /** Wall time of the second process. */
  readonly wallMs: number;
}

export interface ResumeReport {
  readonly conditions: string;
  readonly runs: readonly ResumeRun[];
}

/** Prints tables and writes `resume.json` and `.md`. Resolves to false if a target was missed. */
export async function benchResume(args: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: 'string', default: '5' },
      size: { type: 'string', default: '1GiB' },
      stores: { type: 'string', default: STORES.join() },
      dir: { type: 'string', default: tmpdir() },
      out: { type: 'string' },
      'from-sources': { type: 'boolean', default: false },
    },
  });
  const shape = parseShape(`1x${values.size}`);
  const rounds = Math.ceil(positive('--rounds', values.rounds));
  const stores = chosen('--stores', values.stores, STORES);
  const cli = builtCli(values['from-sources']);
  return inNewDirectory(values.dir, async (directory) => {
    const runs = await measureAll({ cli, directory, shape, rounds, stores });
    const servers = `${MINIO.title} ${MINIO.version}, ${FAKE_GCS.title} ${FAKE_GCS.version} and ${AZURITE_TITLE}, same machine`;
    const conditions = `${machineText()}; ${servers}; one file of ${values.size}; ${rounds} rounds, median [min–max]`;
    const report: ResumeReport = { conditions, runs };
    const verdicts = resumeVerdicts(report);
    publish(
      'resume',
      { markdown: markdownOf(report), json: { ...report, verdicts }, charts: {} },
      values.out,
    );
    return verdicts.every(isMet);
  });
}

interface Plan {
  readonly cli: Cli;
  readonly directory: string;
  readonly shape: Shape;
  readonly rounds: number;
  readonly stores: readonly StoreName[];
}

async function measureAll({ cli, directory, shape, rounds, stores }: Plan): Promise<ResumeRun[]> {
  // Room for the file, its run, and the parts that the server keeps until they become an object.
  assertRoom(shape.name, directory, 4 * shape.fileBytes);
  const files = join(directory, 'files');
  writeFiles(files, shape, makePattern());
  const runs: ResumeRun[] = [];
  for (let round = 0; round < rounds; round++) {
    for (const store of stores) {
      const place = await OPENERS[store](directory);
      try {
        const env = { HOME: directory, AWS_EC2_METADATA_DISABLED: 'true', ...place.env };
        const run = {
          store,
          round,
          ...(await killAndResume({ cli, files, uri: place.uri, env }, shape.fileBytes)),
        };
        say(
          `round ${round + 1}, ${store}: killed at ${percent(run.doneShare)}, sent again ${percent(run.sentAgainShare)}`,
        );
        // Verify every byte once: parts that were not sent again must be there too.
        if (round === 0) await cli.run(['verify', place.uri], env);
        runs.push(run);
      } finally {
        await place.close();
      }
    }
  }
  return runs;
}

interface Place {
  readonly uri: string;
  readonly env: Readonly<Record<string, string>>;
  close(): Promise<void>;
}

/** Servers are new each time, because an emulator's cleanup would slow the next round. */
const OPENERS: Readonly<Record<StoreName, (directory: string) => Promise<Place>>> = {
  local: async (directory) => {
    const path = join(directory, 'run');
    const close = async () => rmSync(path, { recursive: true, force: true });
    return { uri: pathToFileURL(path).href, env: {}, close };
  },
  MinIO: async (directory) => {
    const server = await startMinio({ directory });
    return { ...(await newBucketOf(server)), close: () => server.stop() };
  },
  'fake-gcs': async (directory) => {
    const server = await startFakeGcs({ directory });
    return { ...(await newGcsBucket(server.endpoint)), close: () => server.stop() };
  },
  Azurite: async (directory) => {
    const server = await startAzurite({ directory });
    return { ...(await newAzureContainer(server)), close: () => server.stop() };
  },
};

interface SaveCall {
  readonly cli: Cli;
  readonly files: string;
  readonly uri: string;
  readonly env: Readonly<Record<string, string>>;
}

async function killAndResume(
  call: SaveCall,
  sizeBytes: number,
): Promise<Pick<ResumeRun, 'doneShare' | 'sentAgainShare' | 'wallMs'>> {
  const killed = await save(call, (doneBytes) => doneBytes >= KILLED_AT_SHARE * sizeBytes);
  if (!killed.isKilled) throw new Error('the save was over before it could be killed: take a larger --size');
  const beganMs = performance.now();
  const next = await save(call, () => false);
  const wallMs = performance.now() - beganMs;
  const sentAgainShare = (sizeBytes - next.keptBytes) / sizeBytes;
  return { doneShare: killed.doneBytes / sizeBytes, sentAgainShare, wallMs };
}

/** The fields of a `--progress json` event that this benchmark uses. */
interface Event {
  readonly type: string;
  readonly doneBytes?: number;
  readonly keptBytes?: number;
}

/**
 * Runs one process of the attempt and kills it as soon as `isEnough` returns true. Rejects if the
 * process fails by itself.
 */
async function save(
  { cli, files, uri, env }: SaveCall,
  isEnough: (doneBytes: number) => boolean,
): Promise<{ isKilled: boolean; doneBytes: number; keptBytes: number }> {
  const args = ['save', files, uri, '--attempt', 'job', '--version', '1', '--progress', 'json'];
  const [program = '', ...words] = cli.words(args);
  const child = spawn(program, words, {
    env: { PATH: process.env['PATH'] ?? '', ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const kill = () => child.kill('SIGKILL');
  process.on('exit', kill);
  const ended = new Promise<void>((resolve, reject) =>
    child.once('close', () => resolve()).once('error', reject),
  );
  let [doneBytes, keptBytes, said] = [0, 0, ''];
  for await (const line of createInterface({ input: child.stderr })) {
    const event = JSON.parse(line) as Event;
    keptBytes += event.keptBytes ?? 0;
    if (event.type === 'error') said = line;
    if (event.type !== 'bytes' || child.killed) continue;
    doneBytes = event.doneBytes ?? 0;
    if (isEnough(doneBytes)) kill();
  }
  await ended;
  process.off('exit', kill);
  if (child.exitCode !== 0 && child.signalCode !== 'SIGKILL')
    throw new Error(`a save ended with ${child.signalCode ?? child.exitCode}: ${said}`);
  return { isKilled: child.signalCode === 'SIGKILL', doneBytes, keptBytes };
}

export function resumeVerdicts({ runs }: ResumeReport): Verdict[] {
  return storesOf(runs).map((store) => ({
    what: `${store}: share of the bytes that is sent again`,
    values: runs.filter((run) => run.store === store).map(({ sentAgainShare }) => sentAgainShare),
    wanted: { atMost: SENT_AGAIN_SHARE_MAX },
  }));
}

function storesOf(runs: readonly ResumeRun[]): StoreName[] {
  return STORES.filter((store) => runs.some((run) => run.store === store));
}

function markdownOf(report: ResumeReport): string {
  const rows = storesOf(report.runs).map((store) => {
    const runs = report.runs.filter((run) => run.store === store);
    const of = (value: (run: ResumeRun) => number, digits: number) => spread(runs.map(value), digits);
    return [
      store,
      of(({ doneShare }) => 100 * doneShare, 0),
      of(({ sentAgainShare }) => 100 * sentAgainShare, 0),
      of(({ wallMs }) => wallMs / 1000, 2),
    ];
  });
  const table = markdownTable(['store', 'killed at, %', 'sent again, %', 'second save, s'], rows);
  return `${[report.conditions, verdictTable(resumeVerdicts(report)), table].join('\n\n')}\n`;
}

function percent(share: number): string {
  return `${(100 * share).toFixed(0)} %`;
}
