/** Compares what the store holds with what the records say. Changes nothing. */

import type { VerifyOptions, VerifyResult } from '../contract/checkpoint-manager.ts';
import { CheckpointError } from '../contract/errors.ts';
import { checkpointPrefix, type FileRecord, parsePayloadKey } from '../format/index.ts';
import { chooseCheckpoint } from '../plan/select.ts';
import type { Catalog } from './catalog.ts';
import type { Engine } from './engine.ts';
import { filesOf, readManifest } from './manifest.ts';
import { leaseCheckpoint, wantedVersion } from './restore.ts';
import { plannedEvent, transferOptions } from './session.ts';

type Problem = VerifyResult['problems'][number];

export async function verify(
  engine: Engine,
  catalog: Catalog,
  options: VerifyOptions,
): Promise<VerifyResult> {
  const level = options.level ?? 2;
  if (level !== 0 && level !== 1 && level !== 2) {
    throw new CheckpointError('InvalidArgument', `there is no level ${String(level)}: 0, 1 and 2`);
  }
  const version = wantedVersion(options.version);
  const choose = (head: Parameters<Parameters<typeof leaseCheckpoint>[2]>[0]) =>
    chooseCheckpoint(head.state, version);
  const { checkpoint, lease } = await leaseCheckpoint(engine, catalog, choose, options.signal);
  const signal = options.signal ? AbortSignal.any([options.signal, lease.lost]) : lease.lost;
  try {
    const id = checkpoint.id;
    const files = filesOf(await readManifest(engine, checkpoint, signal));
    options.onProgress?.(plannedEvent(id.version, files));
    const problems = await missingOrResized(engine, files, signal);
    const broken = new Set(problems.map((problem) => problem.name));
    let bytesRead = 0;
    if (level !== 0) {
      const items = files.filter((file) => !broken.has(file.name)).map((file) => ({ file, level }));
      const report = await engine.transfer.verify(items, transferOptions({ ...options, signal }));
      problems.push(...report.problems);
      bytesRead = report.bytesRead;
    }
    return { id, version: id.version, level, fileCount: files.length, bytesRead, problems };
  } finally {
    await lease.release();
  }
}

/** By listings alone: one page per 1,000 objects. */
async function missingOrResized(
  engine: Engine,
  files: readonly FileRecord[],
  signal: AbortSignal,
): Promise<Problem[]> {
  const prefixes = new Set<string>();
  for (const file of files) {
    const key = parsePayloadKey(file.key);
    if (key) prefixes.add(checkpointPrefix(key.id));
  }
  const sizes = new Map<string, number>();
  for (const prefix of prefixes) {
    for await (const page of engine.records.list(prefix, { signal })) {
      for (const object of page.objects) sizes.set(object.key, object.sizeBytes);
    }
  }
  const problems: Problem[] = [];
  for (const { name, key, sizeBytes } of files) {
    const found = sizes.get(key);
    if (found === undefined) problems.push({ name, message: `${key} is missing` });
    else if (found !== sizeBytes) {
      problems.push({ name, message: `${key} has ${found} bytes; the manifest says ${sizeBytes}` });
    }
  }
  return problems;
}
