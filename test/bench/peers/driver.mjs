/**
 * Shared by the JavaScript drivers: the job on the command line, modules from the cache, and the
 * line with the cost of the call.
 */

import { readdirSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

export const job = JSON.parse(process.argv[2] ?? '{}');

/**
 * Loads peers from the directory of `--install-peers`, because they are no dependencies of the
 * repository.
 */
export function load(name) {
  return createRequire(join(process.env.HOLDFAST_BENCH_MODULES ?? '', 'package.json'))(name);
}

export function localFiles() {
  return readdirSync(job.directory).map((name) => {
    const path = join(job.directory, name);
    return { name, path, size: statSync(path).size };
  });
}

/** The local path of an object. */
export function localPath(key) {
  return join(job.directory, key.slice(job.prefix.length));
}

/** Whether a download fetches the object. */
export function isWanted(key) {
  return job.only === null || key === job.prefix + job.only;
}

/** Calls `work` on every item, for at most `limit` items at a time. */
export async function forEach(items, limit, work) {
  const iterator = items[Symbol.iterator]();
  const worker = async () => {
    for (const item of iterator) await work(item);
  };
  await Promise.all(Array.from({ length: limit }, worker));
}

/**
 * Runs the action of the job. The measurement excludes loading the library and includes making a
 * client.
 */
export async function measure(actions) {
  const before = process.cpuUsage();
  const start = performance.now();
  await actions[job.action]();
  const callMs = performance.now() - start;
  const { user, system } = process.cpuUsage(before);
  console.log(JSON.stringify({ callMs, callCpuMs: (user + system) / 1000 }));
}
