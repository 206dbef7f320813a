import {
  anyText,
  atATime,
  callback,
  checkSome,
  optional,
  type RandomSink,
  type RandomSource,
  type RestoreTarget,
  throwIfAborted,
  type WaitOptions,
} from '@holdfast/core/contract';
import { anExtension, aSet, aTarget, SIGNAL } from '../rules.ts';
import { Pool } from '../scatter/at-once.ts';
import type { ShardSet } from '../shard-set.ts';
import { type ShardExtension, shardFile } from './names.ts';

export interface ExportPlainOptions extends WaitOptions {
  /**
   * Prefix of the names, such as `version-100/`. Default: none, for a target that is the version's
   * own directory.
   */
  readonly prefix?: string | undefined;
  /** Default `ckpt`, as ElasticDL writes it. */
  readonly extension?: ShardExtension | undefined;
}

export interface PlainFile {
  readonly name: string;
  readonly sizeBytes: number;
}

const PIECE_BYTES = 4 * 1024 * 1024;
const PIECES_AT_ONCE = 4;
/**
 * Page size of WebAssembly, whose memory is aligned as needed for files written past the page
 * cache.
 */
const WASM_PAGE_BYTES = 65_536;

/** The part of `WebAssembly` that is used; the language's type library does not include it. */
declare const WebAssembly: {
  readonly Memory: new (pages: { initial: number }) => { readonly buffer: ArrayBuffer };
};

/**
 * Copies the shards, byte for byte, to files with ElasticDL's names. It adds no other file, so that
 * ElasticDL accepts the directory as its own. The target is published once every source is
 * verified, and discarded after an error. Uses 16 MiB of memory.
 */
export async function exportPlain(
  set: ShardSet,
  target: RestoreTarget,
  options: ExportPlainOptions = {},
): Promise<readonly PlainFile[]> {
  aSet('set', set);
  aTarget('target', target);
  checkSome(options, {
    ...{ ...SIGNAL, onProgress: optional(callback) },
    ...{ prefix: optional(anyText), extension: optional(anExtension) },
  });
  const { prefix = '', extension, signal } = options;
  const buffers = new Pool(pieces());
  const files: PlainFile[] = [];
  try {
    for (const { index, count, source } of set.shards) {
      const file = { name: prefix + shardFile(index, count, extension), sizeBytes: source.sizeBytes };
      files.push(file);
      await copyFile(file, { source, target, buffers, options });
    }
    for (const { source } of set.shards) await source.assertUnchanged();
    throwIfAborted(signal);
    await target.publish();
    return files;
  } catch (error) {
    await target.discard();
    throw error;
  }
}

interface Copy {
  readonly source: RandomSource;
  readonly target: RestoreTarget;
  readonly buffers: Pool<Uint8Array>;
  readonly options: ExportPlainOptions;
}

async function copyFile(file: PlainFile, { source, target, buffers, options }: Copy): Promise<void> {
  const { onProgress, signal } = options;
  const { name, sizeBytes } = file;
  throwIfAborted(signal);
  const sink = await target.open(file);
  let doneBytes = 0;
  const report = (bytes: number) => {
    doneBytes += bytes;
    onProgress?.({ type: 'bytes', name, doneBytes, totalBytes: sizeBytes });
  };
  const copyPiece = async (offsetBytes: number) => {
    throwIfAborted(signal);
    const buffer = await buffers.take();
    try {
      const piece = buffer.subarray(0, Math.min(PIECE_BYTES, sizeBytes - offsetBytes));
      await source.readInto(offsetBytes, piece);
      await sink.writeAt(offsetBytes, piece);
      report(piece.byteLength);
    } finally {
      buffers.give(buffer);
    }
  };
  await closing(sink, async () => {
    await atATime(offsetsOf(sizeBytes), PIECES_AT_ONCE, copyPiece);
  });
  if (sizeBytes === 0) report(0); // an empty file has no piece that reports
}

/** Closes the sink after an error too, and ignores what that close says about missing bytes. */
async function closing(sink: RandomSink, write: () => Promise<void>): Promise<void> {
  try {
    await write();
  } catch (error) {
    await sink.close().catch(() => undefined);
    throw error;
  }
  await sink.close();
}

function* offsetsOf(sizeBytes: number): Generator<number, void, void> {
  for (let offset = 0; offset < sizeBytes; offset += PIECE_BYTES) yield offset;
}

function pieces(): Uint8Array[] {
  const pageCount = (PIECES_AT_ONCE * PIECE_BYTES) / WASM_PAGE_BYTES;
  const { buffer } = new WebAssembly.Memory({ initial: pageCount });
  return Array.from(
    { length: PIECES_AT_ONCE },
    (_, at) => new Uint8Array(buffer, at * PIECE_BYTES, PIECE_BYTES),
  );
}
