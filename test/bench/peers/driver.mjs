/** What the JavaScript drivers share: the job on the command line, modules from the cache, and the line that says what the call cost. */

import { readdirSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

export const job = JSON.parse(process.argv[2] ?? '{}');

/** Peers are no dependencies of the repository: they are loaded from where `--install-peers` puts them. */
export function load(name) {
  return createRequire(join(process.env.HOLDFAST_BENCH_MODULES ?? '', 'package.json'))(name);
}

export function localFiles() {
  return readdirSync(job.directory).map((name) => {
    const path = join(job.directory, name);
    return { name, path, size: statSync(path).size };
  });
}

/** Where the object goes. */
export function localPath(key) {
  return join(job.directory, key.slice(job.prefix.length));
}

/** Calls `work` on every item, on at most `limit` at a time. */
export async function forEach(items, limit, work) {
  const iterator = items[Symbol.iterator]();
  const worker = async () => {
    for (const item of iterator) await work(item);
  };
  await Promise.all(Array.from({ length: limit }, worker));
}

/** Runs what the job asks for. Loading the library has been paid for by then; making a client has not. */
export async function measure(actions) {
  const before = process.cpuUsage();
  const start = performance.now();
  await actions[job.action]();
  const callMs = performance.now() - start;
  const { user, system } = process.cpuUsage(before);
  console.log(JSON.stringify({ callMs, callCpuMs: (user + system) / 1000 }));
}
