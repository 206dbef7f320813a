/** Writes the tensors of a checkpoint as the files of a model. */

import { atATime } from '../../contract/at-a-time.ts';
import { shown } from '../../contract/checks.ts';
import { CheckpointError } from '../../contract/errors.ts';
import type { ExportTensorsOptions, ExportTensorsResult } from '../../contract/exporting.ts';
import type { RandomSource, RestoreTarget } from '../../contract/files.ts';
import type { FileRecord } from '../../format/index.ts';
import { matcherOf } from '../../plan/globs.ts';
import { type FoundTensor, type JoinedTensor, joinTensors } from '../../plan/joined-tensors.ts';
import { INDEX_NAME, type ModelFiles, planModelFiles } from '../../plan/model-files.ts';
import { isSafetensors } from '../../plan/safetensors.ts';
import { openTarget, withLeasedManifest } from '../read/index.ts';
import { readSlices } from '../records/index.ts';
import { plannedEvent, type RunContext, readRun, transferOptions } from '../run/index.ts';
import { scanTensors } from './scan-tensors.ts';
import { isShapeRecord, readShapes, type Shapes } from './shape-record.ts';
import { writeModelFile } from './write-model-file.ts';

/** A header waits for the store, and may be large. */
const FILES_AT_ONCE = 16;
/** About the limit of Hugging Face's tools, which is 5 GB. */
const FILE_BYTES_MAX = 5 * 1024 ** 3;
const NAMES_TOLD_MAX = 5;

type Options = ExportTensorsOptions & { readonly signal: AbortSignal };

export async function exportTensors(run: RunContext, options: Options): Promise<ExportTensorsResult> {
  await readRun(run, options.signal);
  const { version = 'latest', signal } = options;
  return withLeasedManifest(run, { version, signal }, async ({ id, manifest, signal: until }) => {
    const bounded = { ...options, signal: until };
    const found = await lookThrough(run, readSlices(run, manifest, { signal: until }), bounded);
    const tensors = chooseTensors(joinTensors(found.tensors, found.shapes), bounded.prefix);
    const model = planModelFiles(tensors, options.fileBytesMax ?? FILE_BYTES_MAX);
    const files = filesOf(model, found.copied);
    options.onProgress?.(plannedEvent(id.version, files));
    await writeAll(run, { model, ...found }, bounded);
    const sizeBytes = files.reduce((sum, file) => sum + file.sizeBytes, 0);
    return { id, tensorCount: tensors.length, sizeBytes, files };
  });
}

interface Found {
  readonly tensors: readonly FoundTensor[];
  readonly shapes: Shapes;
  /** The files with tensors, by name. */
  readonly records: ReadonlyMap<string, FileRecord>;
  /** Files that are copied as they are. */
  readonly copied: readonly FileRecord[];
}

async function lookThrough(
  run: RunContext,
  slices: AsyncIterable<{ readonly files: readonly FileRecord[] }>,
  options: Options,
): Promise<Found> {
  const { from, also = [], signal } = options;
  const isRead = from?.length ? matcherOf(from) : isSafetensors;
  const isCopied = also.map((glob) => ({ glob, matches: matcherOf([glob]), count: 0 }));
  const tensors: FoundTensor[] = [];
  const records = new Map<string, FileRecord>();
  const copied: FileRecord[] = [];
  let shapes: Shapes | null = new Map();
  for await (const { files } of slices) {
    const read = files.filter(({ name }) => isRead(name));
    for (const found of await atATime(read, FILES_AT_ONCE, (file) => tensorsIn(run, file, { signal })))
      tensors.push(...found);
    for (const file of read) records.set(file.name, file);
    for (const file of files) {
      const globs = isCopied.filter(({ matches }) => matches(file.name));
      for (const glob of globs) glob.count += 1;
      if (globs.length > 0) copied.push(file);
      if (isShapeRecord(file)) shapes = await readShapes(run, file, { signal });
    }
  }
  const missing = isCopied.find(({ count }) => count === 0);
  if (missing) throw nothingFound(`no file of the checkpoint matches ${shown(missing.glob)}`);
  if (records.size === 0)
    throw nothingFound(
      `no file of the checkpoint ${from?.length ? 'matches' : 'is in the safetensors format'}`,
    );
  // Holdfast checks when it saves that all parts are there; only a choice of files can lack some.
  if (shapes === null && from?.length)
    throw new CheckpointError(
      'Unsupported',
      'its metadata.json is too large to tell whether the chosen files hold all parts; export from all files',
    );
  return { tensors, shapes: shapes ?? new Map(), records, copied };
}

async function tensorsIn(
  run: RunContext,
  file: FileRecord,
  options: Pick<Options, 'signal'>,
): Promise<FoundTensor[]> {
  const { scan } = await scanTensors(run, file, { ...options, withSums: false });
  if (scan.problem === undefined)
    return [...scan.tensors].map(([name, tensor]) => ({ ...tensor, name, file: file.name }));
  const why = `${shown(file.name)} is not read as safetensors: ${scan.problem}`;
  throw new CheckpointError('InvalidArgument', why, { context: { name: file.name } });
}

function chooseTensors(tensors: readonly JoinedTensor[], prefix = ''): JoinedTensor[] {
  const chosen = tensors.filter(({ name }) => name.startsWith(prefix) && name !== prefix);
  if (chosen.length > 0) return chosen.map((each) => ({ ...each, name: each.name.slice(prefix.length) }));
  const some = tensors.slice(0, NAMES_TOLD_MAX).map(({ name }) => shown(name));
  throw nothingFound(
    tensors.length === 0
      ? 'the files hold no tensor'
      : `no tensor has a name that begins with ${shown(prefix)}; there are ${some.join(', ')}`,
  );
}

/** `InvalidArgument`: two files would have one name. */
function filesOf({ files, index }: ModelFiles, copied: readonly FileRecord[]) {
  const made = files.map(({ name, layout }) => ({ name, sizeBytes: layout.sizeBytes }));
  if (index !== undefined) made.push({ name: INDEX_NAME, sizeBytes: Buffer.byteLength(index) });
  const twice = copied.find(({ name }) => made.some((file) => file.name === name));
  if (!twice) return [...made, ...copied.map(({ name, sizeBytes }) => ({ name, sizeBytes }))];
  const why = `${shown(twice.name)} would be copied, and the export writes a file of this name; choose other files to copy`;
  throw new CheckpointError('InvalidArgument', why, { context: { name: twice.name } });
}

interface Work extends Pick<Found, 'records' | 'copied'> {
  readonly model: ModelFiles;
}

async function writeAll(run: RunContext, { model, records, copied }: Work, options: Options): Promise<void> {
  const transfer = transferOptions(options);
  const target = await openTarget(run, options);
  const sources = new Map([...records].map(([name, file]) => [name, run.transfers.source(file, transfer)]));
  try {
    for (const file of model.files) await writeModelFile(target, file, { sources, ...options });
    if (model.index !== undefined) await writeText(target, INDEX_NAME, model.index);
    const items = copied.map((file) => {
      const { name, sizeBytes } = file;
      return { file, sink: () => target.open({ name, sizeBytes }) };
    });
    await run.transfers.download(items, transfer);
    await allUnchanged(sources.values());
    await target.publish();
  } catch (error) {
    await target.discard();
    throw error;
  } finally {
    await Promise.all([...sources.values()].map((source) => source.close()));
  }
}

async function allUnchanged(sources: Iterable<RandomSource>): Promise<void> {
  for (const source of sources) await source.assertUnchanged();
}

async function writeText(target: RestoreTarget, name: string, text: string): Promise<void> {
  const bytes = Buffer.from(text);
  const sink = await target.open({ name, sizeBytes: bytes.byteLength });
  await sink.writeAt(0, bytes);
  await sink.close();
}

function nothingFound(why: string): CheckpointError {
  return new CheckpointError('NotFound', why, { context: { tensors: 'missing' } });
}
