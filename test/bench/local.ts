/** Compares the local store with dd and cp, on the same bytes in the same run, in turn. */

import { closeSync, mkdirSync, openSync, readdirSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Cost, timeCommand, timeHoldfast } from './measure.ts';
import { median, spread } from './statistics.ts';

const MIB = 1024 * 1024;
const GIB = 1024 * MIB;

export interface Row {
  readonly what: string;
  /** The promised value, if there is one. */
  readonly target: string;
  readonly found: string;
  readonly isMet: boolean;
  readonly raw: unknown;
}

/** Writes random bytes, which no layer below can compress. */
function writeRandom(path: string, sizeBytes: number): void {
  const file = openSync(path, 'w');
  const block = new Uint8Array(MIB);
  for (let at = 0; at < sizeBytes; at += MIB) {
    for (let start = 0; start < MIB; start += 65_536)
      crypto.getRandomValues(block.subarray(start, start + 65_536));
    writeSync(file, block, 0, Math.min(MIB, sizeBytes - at));
  }
  closeSync(file);
}

function payloadOf(run: string): string {
  for (const entry of readdirSync(run, { recursive: true, encoding: 'utf8' })) {
    if (entry.endsWith('/model.bin')) return join(run, entry);
  }
  throw new Error(`there is no payload in ${run}`);
}

/** Compares the save and restore of one file with dd, `rounds` times each in turn. */
export async function largeFile(directory: string, sizeBytes: number, rounds: number): Promise<Row[]> {
  const source = join(directory, 'source');
  mkdirSync(source);
  const file = join(source, 'model.bin');
  writeRandom(file, sizeBytes);
  await timeCommand('sync', []);
  const costs = { save: [] as Cost[], ddSave: [] as Cost[], restore: [] as Cost[], ddRestore: [] as Cost[] };
  for (let round = 0; round < rounds; round++) {
    const run = join(directory, `run-${round}`);
    const copy = join(directory, 'copy');
    const out = join(directory, 'out');
    const uri = pathToFileURL(run).href;
    costs.ddSave.push(
      await timeCommand('dd', [`if=${file}`, `of=${copy}`, 'oflag=direct', 'bs=8M', 'conv=fsync']),
    );
    rmSync(copy);
    costs.save.push(await timeHoldfast('save', { uri, directory: source }));
    const payload = payloadOf(run);
    costs.ddRestore.push(
      await timeCommand('dd', [`if=${payload}`, `of=${copy}`, 'iflag=direct', 'oflag=direct', 'bs=8M']),
    );
    rmSync(copy);
    costs.restore.push(await timeHoldfast('restore', { uri, directory: out }));
    rmSync(out, { recursive: true });
    rmSync(run, { recursive: true });
  }
  rmSync(source, { recursive: true });
  return largeFileRows(sizeBytes, costs);
}

function largeFileRows(sizeBytes: number, costs: Record<string, Cost[]>): Row[] {
  const size = `${sizeBytes / GIB} GiB`;
  const { save = [], ddSave = [], restore = [], ddRestore = [] } = costs;
  const ratios = (ours: Cost[], theirs: Cost[]) =>
    ours.map((cost, at) => cost.wallMs / (theirs[at]?.wallMs ?? 0));
  const cpu = (ours: Cost[]) => ours.map((cost) => cost.cpuMs / 1000 / (sizeBytes / GIB));
  const rss = (ours: Cost[]) => ours.map((cost) => cost.peakRssBytes / MIB);
  const speed = (ours: Cost[]) =>
    `${spread(ours.map((cost) => sizeBytes / GIB / (cost.wallMs / 1000)))} GiB/s`;
  return [
    row(`save ${size}, wall time / dd oflag=direct conv=fsync`, 1.05, ratios(save, ddSave), costs),
    row(
      `restore ${size}, verified, wall time / dd iflag=direct oflag=direct`,
      1.1,
      ratios(restore, ddRestore),
      costs,
    ),
    row(`save ${size}, client cpu-s per GiB`, 0.5, cpu(save), null),
    row(`restore ${size}, client cpu-s per GiB`, 0.5, cpu(restore), null),
    row(`save ${size}, peak RSS in MiB (budget 256)`, 320, rss(save), null, 0),
    row(`restore ${size}, peak RSS in MiB (budget 256)`, 320, rss(restore), null, 0),
    {
      what: `speed of save / restore, ${size}`,
      target: '',
      found: `${speed(save)} / ${speed(restore)}`,
      isMet: true,
      raw: null,
    },
  ];
}

/**
 * Compares many small files with `cp -r` followed by `sync`, for the first and the third save of a
 * process.
 */
export async function smallFiles(
  directory: string,
  count: number,
  sizeBytes: number,
  rounds: number,
): Promise<Row[]> {
  const source = join(directory, 'small');
  mkdirSync(source);
  for (let index = 0; index < count; index++) writeRandom(join(source, `part-${index}.bin`), sizeBytes);
  await timeCommand('sync', []);
  const costs = { cp: [] as Cost[], first: [] as Cost[], third: [] as Cost[] };
  // Deletes nothing in between. On ext4 creating files right after thousands were deleted is slow,
  // for any process.
  for (let round = 0; round < rounds; round++) {
    const copy = join(directory, `small-copy-${round}`);
    costs.cp.push(await timeCommand('sh', ['-c', 'cp -r "$0" "$1" && sync', source, copy]));
    for (const [name, times] of [
      ['first', 1],
      ['third', 3],
    ] as const) {
      const uri = pathToFileURL(join(directory, `small-run-${name}-${round}`)).href;
      costs[name].push(await timeHoldfast('save', { uri, directory: source, times }));
    }
  }
  return (['first', 'third'] as const).map((name) => {
    const ratios = costs[name].map((cost, at) => cost.wallMs / (costs.cp[at]?.wallMs ?? 0));
    const [ours, theirs] = [costs[name], costs.cp].map((each) =>
      median(each.map((cost) => cost.wallMs)).toFixed(0),
    );
    const what = `save ${count} files of ${sizeBytes / 1024} KiB, ${name} save of a process, wall time / (cp -r + sync)`;
    return row(`${what} (${ours} ms and ${theirs} ms)`, 3, ratios, costs);
  });
}

function row(what: string, limit: number, values: readonly number[], raw: unknown, digits = 2): Row {
  const isMet = median(values) <= limit;
  return { what, target: `≤ ${limit}`, found: spread(values, digits), isMet, raw };
}
