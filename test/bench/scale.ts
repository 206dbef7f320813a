/**
 * `bench scale`: requests and bytes of one commit, by number of versions in the run and of files in
 * the checkpoint. These are counts, so a busy machine does not change them. The store is in memory.
 * The files also go to real stores.
 */

import { tmpdir } from 'node:os';
import { parseArgs } from 'node:util';
import { crc32c, createCheckpointManager, type RunManager } from '@holdfast/core';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { type Counted, Counter } from './counter.ts';
import { ENTRY_CHECKPOINTS, fillRun, JOB, METRICS } from './fill-run.ts';
import { lineChart } from './line-chart.ts';
import { chosen, countOf } from './options.ts';
import { machineText, markdownTable, publish } from './results.ts';
import { ofFiles, ofLoneWriter, ofStored, ofWriters } from './scale-files.ts';
import { REAL_STORES, SCALE_STORES } from './scale-stores.ts';

const MIB = 1024 * 1024;
const SETTINGS = { bufferBytes: 16 * MIB, partSizeBytesMin: 64 * 1024, deletesPerSecondMax: 1_000_000 };

/** Prints tables and writes `scale.json`, `.md` and a chart. */
export async function benchScale(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      versions: { type: 'string', default: '100000' },
      files: { type: 'string', default: '1000000' },
      writers: { type: 'string', default: '2000' },
      'lone-files': { type: 'string', default: '100000' },
      stores: { type: 'string', default: REAL_STORES.join(',') },
      'stored-files': { type: 'string', default: '100000' },
      dir: { type: 'string', default: tmpdir() },
      out: { type: 'string' },
    },
  });
  const upTo = (most: number) => [1, 1000, most].filter((each, index, all) => all.indexOf(each) === index);
  const rows: Counted[] = [];
  for (const count of upTo(countOf('--versions', values.versions))) rows.push(...(await ofVersions(count)));
  for (const count of upTo(countOf('--files', values.files))) rows.push(...(await ofFiles(count)));
  for (const count of upTo(countOf('--writers', values.writers))) rows.push(...(await ofWriters(count)));
  rows.push(...(await ofLoneWriter(countOf('--lone-files', values['lone-files']))));
  const stored = countOf('--stored-files', values['stored-files']);
  for (const name of values.stores === '' ? [] : chosen('--stores', values.stores, SCALE_STORES))
    rows.push(...(await ofStored(name, stored, values.dir)));
  const conditions = `${machineText()}; memory store unless a row says another; requests and bytes are counts, times are of one run`;
  const head = ['what', 'size', 'requests', 'bytes of records', 'ms'];
  const cells = rows.map(({ what, count, requests, bytes, ms }) => [
    what,
    count.toLocaleString('en'),
    requests.toLocaleString('en'),
    bytes.toLocaleString('en'),
    Math.round(ms).toLocaleString('en'),
  ]);
  const markdown = `${conditions}\n\n${markdownTable(head, cells)}\n`;
  publish(
    'scale',
    { markdown, json: { conditions, rows }, charts: { 'scale.svg': chartOf(rows) } },
    values.out,
  );
}

/** In memory: a commit and the reads of a run with `count` live versions of one file. */
export async function ofVersions(count: number): Promise<Counted[]> {
  const bucket = new MemoryBucket({ crc32c });
  await fillRun(new MemoryStore(bucket), count);
  const counter = new Counter();
  const open = () =>
    createCheckpointManager({
      store: counter.connect(new MemoryStore(bucket)),
      settings: SETTINGS,
      attempt: JOB,
      dedupe: 'off',
    });
  const counted: Counted[] = [];
  const ask = async (what: string, call: (manager: RunManager) => Promise<unknown>) => {
    const manager = open();
    counted.push(await counter.count(`versions: ${what}`, count, () => call(manager)));
    await manager.close();
  };
  const manager = open();
  await manager.join();
  const save = () =>
    manager.save({ version: count + 1, buffers: { a: new Uint8Array(3) }, metrics: METRICS });
  counted.push(await counter.count('versions: commit', count, save));
  await manager.close();
  await ask('latest', (reader) => reader.latest());
  await ask('list, newest 20', (reader) => reader.list({ limit: 20 }));
  await ask('get the oldest', (reader) => reader.get(1));
  await ask('list all', (reader) => reader.list());
  if (count < ENTRY_CHECKPOINTS) return counted;
  const policy = { keepLast: count - 200, graceMs: 0 };
  await ask('collect 201', (collector) => collector.admin.collect({ policy, force: true }));
  return counted;
}

const LINES = [
  'versions: commit',
  'versions: latest',
  'files: last save and commit',
  'files: restore one',
  'files: fsck',
  'writers: save',
  'writers: last save and commit',
];

function chartOf(rows: readonly Counted[]): string {
  const panel = (title: string, numberOf: (row: Counted) => number) => ({
    title,
    lines: LINES.map((label) => ({
      label,
      points: rows
        .filter(({ what }) => what === label)
        .map((row) => ({ size: row.count, value: numberOf(row) })),
    })),
  });
  return lineChart(
    'What a call takes, however large the run and the checkpoint',
    'by versions of the run, or by files of the checkpoint (a thousand for each writer); both axes by powers of ten',
    [panel('requests', ({ requests }) => requests), panel('bytes of records', ({ bytes }) => bytes)],
  );
}
