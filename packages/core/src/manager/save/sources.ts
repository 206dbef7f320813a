/**
 * Resolves what a caller wants to save into what is uploaded. Everything is checked before the
 * store is used.
 */

import { atATime } from '../../contract/at-a-time.ts';
import type { SaveOptions, SaveSource } from '../../contract/checkpoint-manager.ts';
import { shown } from '../../contract/checks.ts';
import { CheckpointError } from '../../contract/errors.ts';
import { DIRECTORY_COUNT_MAX, DIRECTORY_NAMES_BYTES_MAX, FILE_COUNT_MAX } from '../../contract/ranges.ts';
import { checkLogicalNames, type DirectoryRecord } from '../../format/index.ts';
import { excluding } from '../../plan/select.ts';
import { recordedTimeMs } from '../../plan/times.ts';
import type { UploadSource } from '../../transfer/index.ts';
import { localFiles, type RunContext } from '../run/index.ts';

/** Files that are opened at once: far below the 1,024 that a process may have open. */
const SOURCES_AT_ONCE = 64;

export interface NamedSource {
  readonly name: string;
  readonly source: UploadSource;
  /** Size as far as it is known in advance; 0 for a stream. */
  readonly sizeBytes: number;
}

/** All sources of one save. */
export interface Sources {
  readonly files: readonly NamedSource[];
  /** Empty directories. */
  readonly directories: readonly DirectoryRecord[];
  /** As of `FoundTree`. */
  readonly assertUnchanged?: (() => Promise<void>) | undefined;
}

/** Names and sizes of what is to be saved. Checks the names. */
export async function resolveSources(run: RunContext, options: SaveOptions): Promise<Sources> {
  const { dir, exclude = [], links, files, buffers, signal } = options;
  const given = [dir, files, buffers].filter((each) => each !== undefined);
  if (given.length !== 1) {
    throw new CheckpointError('InvalidArgument', 'a save takes exactly one of `dir`, `files` and `buffers`');
  }
  if (dir === undefined && (exclude.length > 0 || links !== undefined))
    throw new CheckpointError('InvalidArgument', '`exclude` and `links` need `dir`');
  if (dir !== undefined) {
    const isExcluded = exclude.length === 0 ? undefined : excluding(exclude);
    const found = await localFiles(run).scan(dir, { isExcluded, links, signal });
    const directories = found.directories.map(({ name, mtimeMs }) => ({
      name,
      mtimeMs: recordedTimeMs(mtimeMs),
    }));
    checkFileCount(found.files.length);
    checkDirectories(directories);
    checkLogicalNames(
      found.files.map((file) => file.name),
      directories.map(({ name }) => name),
    );
    const named = found.files.map((file) => ({ name: file.name, sizeBytes: file.sizeBytes, source: file }));
    return { files: named, directories, assertUnchanged: found.assertUnchanged?.bind(found) };
  }
  const sources = Object.entries<SaveSource>(files ?? buffers ?? {});
  checkFileCount(sources.length);
  if (sources.length === 0) throw new CheckpointError('InvalidArgument', 'there is no file to save');
  checkLogicalNames(sources.map(([name]) => name));
  checkStreams(sources);
  const resolve = ([name, source]: (typeof sources)[number]) => resolveSource(run, name, source);
  return { files: await atATime(sources, SOURCES_AT_ONCE, resolve), directories: [] };
}

/** Two files would share the chunks of one stream between them. */
function checkStreams(sources: readonly (readonly [string, SaveSource])[]): void {
  const names = new Map<SaveSource, string>();
  for (const [name, source] of sources) {
    if (typeof source === 'string' || source instanceof Uint8Array) continue;
    const other = names.get(source);
    if (other !== undefined)
      throw refusal(`"${other}" and "${name}" have the same stream; give each its own`);
    names.set(source, name);
  }
}

/** The receipt must hold all empty directories. */
function checkDirectories(directories: readonly DirectoryRecord[]): void {
  const advice = 'exclude some of them';
  if (directories.length > DIRECTORY_COUNT_MAX)
    throw refusal(
      `there are ${directories.length} empty directories; one writer saves at most ${DIRECTORY_COUNT_MAX}: ${advice}`,
    );
  const sizeBytes = directories.reduce((sum, { name }) => sum + Buffer.byteLength(name), 0);
  if (sizeBytes > DIRECTORY_NAMES_BYTES_MAX)
    throw refusal(
      `the names of empty directories have ${sizeBytes} bytes; one writer saves at most ${DIRECTORY_NAMES_BYTES_MAX}: ${advice}`,
    );
}

/** Rejects more files than the receipt of one writer can hold, whatever their names. */
export function checkFileCount(count: number): void {
  if (count <= FILE_COUNT_MAX) return;
  throw refusal(`there are ${count} files; one writer saves at most ${FILE_COUNT_MAX} in a checkpoint`);
}

async function resolveSource(run: RunContext, name: string, source: SaveSource): Promise<NamedSource> {
  if (typeof source === 'string') {
    const local = localFiles(run);
    // An unreadable path is reported before anything is written.
    const opened = await local.openSource(source);
    await opened.close();
    return { name, sizeBytes: opened.sizeBytes, source: { open: () => local.openSource(source) } };
  }
  if (source instanceof Uint8Array) {
    // Its length is 0, so it would be saved as an empty file.
    if (source.buffer instanceof ArrayBuffer && source.buffer.detached)
      throw refusal(
        `the memory of "${name}" was transferred by postMessage or structuredClone before it was saved`,
      );
    return { name, sizeBytes: source.byteLength, source: { bytes: source, sizeBytes: source.byteLength } };
  }
  if (typeof source === 'object' && source !== null && Symbol.asyncIterator in source) {
    return { name, sizeBytes: 0, source: { stream: source } };
  }
  throw new CheckpointError(
    'InvalidArgument',
    `the source of "${name}" is ${shown(source)}; it takes a path, a Uint8Array or an async iterable of Uint8Array`,
    { context: { name } },
  );
}

function refusal(message: string): CheckpointError {
  return new CheckpointError('InvalidArgument', message);
}
