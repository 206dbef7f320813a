/**
 * Measured calls in a separate process: `repartition-one.ts repartition|streams|inspect JSON`.
 * Prints one line of JSON.
 */

import { createReadStream, createWriteStream, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { openDirectoryShards, readShardLayout, repartition } from '@holdfast/elasticdl';
import { localFiles } from '@holdfast/local-files';
import type { OneCost, RepartitionJob } from './repartition.ts';

const [action, text] = process.argv.slice(2);
const job = JSON.parse(text ?? '{}') as RepartitionJob;

async function divide(): Promise<number> {
  await using set = await openDirectoryShards(job.from);
  const target = await localFiles.openTarget(job.to);
  const { files } = await repartition(set, target, { count: job.count, bufferBytes: job.bufferBytes });
  return files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
}

/**
 * Copies all files at once with Node's own streams and default settings, and makes them durable.
 */
async function stream(): Promise<number> {
  mkdirSync(job.to);
  const copies = readdirSync(job.from).map(async (name) => {
    const output = createWriteStream(join(job.to, name), { flush: true });
    await pipeline(createReadStream(join(job.from, name)), output);
    return output.bytesWritten;
  });
  return (await Promise.all(copies)).reduce((sum, bytes) => sum + bytes, 0);
}

async function inspect(): Promise<number> {
  await using set = await openDirectoryShards(job.from);
  let readBytes = 0;
  for (const { name, source } of set.shards) {
    const counting = {
      sizeBytes: source.sizeBytes,
      readInto: (offsetBytes: number, buffer: Uint8Array) => {
        readBytes += buffer.byteLength;
        return source.readInto(offsetBytes, buffer);
      },
      assertUnchanged: () => source.assertUnchanged(),
      close: async () => undefined,
    };
    await readShardLayout(counting, { name });
  }
  return readBytes;
}

const ACTIONS: Readonly<Record<string, () => Promise<number>>> = {
  repartition: divide,
  streams: stream,
  inspect,
};

const call = ACTIONS[action ?? ''];
if (call === undefined) throw new Error(`"${action}" is not one of ${Object.keys(ACTIONS).join(', ')}`);
const before = process.cpuUsage();
const start = performance.now();
const bytes = await call();
const wallMs = performance.now() - start;
const { user, system } = process.cpuUsage(before);
const peakKib = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1];
const cost: OneCost = { bytes, wallMs, cpuMs: (user + system) / 1000, peakRssBytes: Number(peakKib) * 1024 };
process.stdout.write(`${JSON.stringify(cost)}\n`);
