/** For the tests of replacing: a new directory for each test, and restores into it. */

import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { TargetOptions } from '@holdfast/core/contract';
import { afterEach, beforeEach, expect } from 'vitest';
import { type FileSystem, nodeFileSystem } from './file-system.ts';
import { createLocalFiles } from './index.ts';
import { type Processes, type ProcessIdentity, processText } from './processes.ts';

export const code = (expected: string, message = '') =>
  expect.objectContaining({ code: expected, message: expect.stringContaining(message) });

export const processOf = (pid: number): ProcessIdentity => ({
  pid,
  startTicks: '1',
  pidNamespace: '1',
  bootId: '01234567-89ab-cdef-0123-456789abcdef',
});
export const GONE = processText(processOf(7));
/** Only process 7 has ended. */
export const LIVING: Processes = {
  self: async () => processOf(8),
  isCertainlyGone: async ({ pid }) => pid === 7,
};

export let parent: string;
export let directory: string;

/** Each file calls it: files that share a process import this module once. */
export function eachInNewDirectory(): void {
  beforeEach(() => {
    parent = mkdtempSync(join(tmpdir(), 'holdfast-replace-'));
    directory = join(parent, 'ckpt');
  });
  afterEach(() => rmSync(parent, { recursive: true, force: true }));
}

export function put(name: string, value = name): void {
  mkdirSync(dirname(join(parent, name)), { recursive: true });
  writeFileSync(join(parent, name), value);
}

export interface Restore extends TargetOptions {
  readonly to?: string;
  readonly files?: readonly string[];
  readonly fileSystem?: FileSystem | undefined;
  readonly processes?: Processes;
  /** Modification time of all files. */
  readonly mtimeMs?: number;
  /** Called between opening and publishing. */
  readonly meanwhile?: () => void | Promise<void>;
}

/** Writes files whose content is their name. */
export async function restore({
  to = directory,
  files = ['a'],
  fileSystem,
  processes = LIVING,
  mtimeMs,
  meanwhile,
  ...options
}: Restore = {}) {
  const local = createLocalFiles(fileSystem ?? nodeFileSystem, processes);
  const target = await local.openTarget(to, options);
  try {
    for (const name of files) {
      const sink = await target.open({ name, sizeBytes: Buffer.byteLength(name), mtimeMs });
      await sink.writeAt(0, Buffer.from(name));
      await sink.close();
    }
    await meanwhile?.();
    await target.publish();
  } catch (error) {
    await target.discard();
    throw error;
  }
}

export const files = (at = directory) => readdirSync(at, { recursive: true }).map(String).sort();
export const hidden = (ending = '') =>
  readdirSync(parent).filter((name) => name.startsWith('.') && name.endsWith(ending));
