/**
 * Exports a whole model as one safetensors file, with a small JSON next to it that describes its
 * tables. The file is self-sufficient, because its metadata has the same description. The JSON may
 * therefore be missing, but it must never describe another file. So an old JSON is removed before
 * the new file replaces the old one, and the new JSON is published last.
 */

import { dirname } from 'node:path';
import {
  checkSome,
  flag,
  oneOf,
  optional,
  type RestoreTarget,
  type Rules,
  recordOf,
  throwIfAborted,
  wholeNumber,
} from '@holdfast/core/contract';
import {
  DirectorySync,
  errnoOf,
  fileError,
  localPath,
  nodeFileSystem,
  openTargetFile,
} from '@holdfast/local-files';
import type { ReadingOptions } from '../reading-options.ts';
import { READING } from '../reading-options.ts';
import { aSet } from '../rules.ts';
import { scatterModel } from '../scatter/scatter-model.ts';
import type { ShardSet } from '../shard-set.ts';
import { denseRowCounts } from './dense-rows.ts';
import type { ExportDocument } from './export-plan.ts';
import type { ExportedTensor } from './exported-tensor.ts';
import { SafetensorsSink } from './safetensors-sink.ts';
import { asksForDense, checkTableOptions, DENSE_ROWS_MAX, type TableOptions } from './table-storage.ts';

export interface ExportOptions extends ReadingOptions, TableOptions {
  /** Default false: an existing file is `TargetExists`. True: both files are replaced. */
  readonly replace?: boolean | undefined;
}

const rowCount = wholeNumber(0, DENSE_ROWS_MAX);
const OPTIONS: Rules<ExportOptions> = {
  ...READING,
  tables: optional(oneOf('sparse', 'dense')),
  rowCounts: optional(recordOf(rowCount)),
  rowCount: optional((name, value) => {
    if (value !== 'highest') rowCount(name, value);
  }),
  keepSlots: optional(flag),
  replace: optional(flag),
};

export interface ExportResult {
  readonly path: string;
  /** `model.json` for `model.safetensors`. */
  readonly jsonPath: string;
  /** Size of the safetensors file. */
  readonly sizeBytes: number;
  /** Version of the model. */
  readonly version: number;
  /** In the order of their positions in the file. */
  readonly tensors: readonly ExportedTensor[];
  /**
   * Names of tables that were left out because they hold an optimizer's slots for another table.
   */
  readonly dropped: readonly string[];
}

const BUFFER_BYTES_DEFAULT = 256 * 1024 * 1024;
/** The least memory that moving rows needs. */
const MOVING_BYTES_MIN = 1024 * 1024;
/** Share of the buffer in which dense tables are assembled. */
const DENSE_SHARE = 1 / 4;
const EXTENSION = /\.safetensors$/;

/**
 * Merges all shards into one file. Both files appear only after every source is verified; until
 * then existing files stay unchanged. Values are read once. Ids of sparse tables are read once,
 * those of dense tables twice. A dense table that does not fit into a quarter of `bufferBytes` is
 * written in pieces; each piece holds rows of consecutive ids. If no two ids are consecutive, each
 * piece is one row.
 *
 * `InvalidArgument`: wrong options, a dense table in which the row of some id is missing (found
 * before anything is written), or two tensors of one name. `TargetExists`, `Denied`, `StorageFull`:
 * one of the two files cannot be written. Otherwise as `scatterModel`. If only the JSON cannot be
 * published, the safetensors file stays in place, whole.
 */
export async function exportSafetensors(
  set: ShardSet,
  path: string,
  options: ExportOptions = {},
): Promise<ExportResult> {
  aSet('set', set);
  checkSome(options, OPTIONS);
  checkTableOptions(options);
  const places = { path: localPath(path), jsonPath: jsonBeside(localPath(path)) };
  const { replace, signal } = options;
  const targets: RestoreTarget[] = [];
  try {
    const model = await openTargetFile(places.path, { replace, signal });
    targets.push(model);
    const json = await openTargetFile(places.jsonPath, { replace, signal });
    targets.push(json);
    const { layout, document, dropped } = await writeModel(set, model, places.path, options);
    await writeDocument(json, places.jsonPath, document);
    throwIfAborted(signal);
    if (replace) await removeFile(places.jsonPath);
    await model.publish();
    await json.publish();
    const { sizeBytes, tensors } = layout;
    return { ...places, sizeBytes, version: document.version, tensors, dropped };
  } catch (error) {
    for (const target of targets) await target.discard();
    throw error;
  }
}

function jsonBeside(path: string): string {
  return `${path.replace(EXTENSION, '')}.json`;
}

async function writeModel(set: ShardSet, target: RestoreTarget, name: string, options: ExportOptions) {
  const { bufferBytes = BUFFER_BYTES_DEFAULT } = options;
  const isDense = asksForDense(options);
  const denseBytes = isDense
    ? Math.max(Math.floor(Math.min(bufferBytes * DENSE_SHARE, bufferBytes - MOVING_BYTES_MIN)), 0)
    : 0;
  const counted = isDense ? await denseRowCounts(set, options) : {};
  const { tables, keepSlots } = options;
  const { writers } = set;
  const asked = { tables, keepSlots, rowCounts: counted };
  const sink = new SafetensorsSink(target, { ...asked, name, denseBytes, writers });
  await scatterModel(set, {
    ...options,
    bufferBytes: bufferBytes - denseBytes,
    count: 1,
    openSink: () => sink,
  });
  return sink.plan;
}

async function writeDocument(target: RestoreTarget, name: string, document: ExportDocument): Promise<void> {
  const bytes = Buffer.from(`${JSON.stringify(document, null, 2)}\n`);
  const sink = await target.open({ name, sizeBytes: bytes.byteLength });
  await sink.writeAt(0, bytes);
  await sink.close();
}

/**
 * Removes a file durably. If the path is a symbolic link, the target is removed and not the link.
 */
async function removeFile(path: string): Promise<void> {
  try {
    const file = await nodeFileSystem.realpath(path);
    await nodeFileSystem.unlink(file);
    await new DirectorySync().sync(dirname(file));
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return;
    throw fileError(error, `remove ${path}`, { path });
  }
}
