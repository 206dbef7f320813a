/** Writes the tensors of a checkpoint as files of another layout. */

import { atATime } from '../../contract/at-a-time.ts';
import { shown } from '../../contract/checks.ts';
import { CheckpointError } from '../../contract/errors.ts';
import type { ExportTensorsOptions, ExportTensorsResult } from '../../contract/exporting.ts';
import type { RandomSource, RestoreTarget } from '../../contract/files.ts';
import { compareUtf8 } from '../../contract/object-key.ts';
import type { FileRecord } from '../../format/index.ts';
import { planDistcpFiles } from '../../plan/distcp-layout.ts';
import { type FoundTensor, type JoinedTensor, joinTensors } from '../../plan/joined-tensors.ts';
import { planModelFiles } from '../../plan/model-files.ts';
import type { TensorFiles } from '../../plan/tensor-files.ts';
import { openTarget, withLeasedManifest } from '../read/index.ts';
import { readSlices } from '../records/index.ts';
import { plannedEvent, type RunContext, readRun, transferOptions } from '../run/index.ts';
import { placeOfPart } from './distcp-files.ts';
import { type Found, findTensors, nothingFound } from './find-tensors.ts';
import { writeTensorFile } from './write-tensor-file.ts';

/** Each reads the two ends of an archive. */
const PLACES_AT_ONCE = 16;
/** About the limit of Hugging Face's tools, which is 5 GB. */
const FILE_BYTES_MAX = 5 * 1024 ** 3;
const NAMES_TOLD_MAX = 5;

type Layout = NonNullable<ExportTensorsOptions['layout']>;

const PLANNERS: Readonly<Record<Layout, typeof planModelFiles>> = {
  safetensors: planModelFiles,
  distcp: planDistcpFiles,
};

type Options = ExportTensorsOptions & { readonly signal: AbortSignal };

export async function exportTensors(run: RunContext, options: Options): Promise<ExportTensorsResult> {
  await readRun(run, options.signal);
  const { version = 'latest', signal } = options;
  return withLeasedManifest(run, { version, signal }, async ({ id, manifest, signal: until }) => {
    const bounded = { ...options, signal: until };
    const found = await findTensors(run, readSlices(run, manifest, { signal: until }), bounded);
    const chosen = withPrefix(found, bounded.prefix);
    const transfer = transferOptions(bounded);
    const sources = new Map(
      [...found.records].map(([name, file]) => [name, run.transfers.source(file, transfer)]),
    );
    try {
      const tensors = joinTensors(await withPlaces(chosen, sources), chosen.shapes);
      const plan = PLANNERS[options.layout ?? 'safetensors'];
      const made = plan(withoutPrefix(tensors, bounded.prefix), options.fileBytesMax ?? FILE_BYTES_MAX);
      const files = filesOf(made, found.copied);
      options.onProgress?.(plannedEvent(id.version, files));
      await writeAll(run, { made, sources, copied: found.copied }, bounded);
      const sizeBytes = files.reduce((sum, file) => sum + file.sizeBytes, 0);
      return { id, tensorCount: tensors.length, sizeBytes, files };
    } finally {
      await Promise.all([...sources.values()].map((source) => source.close()));
    }
  });
}

type Tensors = Pick<Found, 'tensors' | 'archived' | 'shapes'>;

/** `NotFound`: there is none. */
function withPrefix({ tensors, archived, shapes }: Tensors, prefix = ''): Tensors {
  const isChosen = ({ name }: { readonly name: string }) => name.startsWith(prefix);
  const chosen = { tensors: tensors.filter(isChosen), archived: archived.filter(isChosen), shapes };
  if (chosen.tensors.length + chosen.archived.length > 0) return chosen;
  const names = new Set([...tensors, ...archived].map(({ name }) => name));
  const some = [...names].sort(compareUtf8).slice(0, NAMES_TOLD_MAX).map(shown);
  throw nothingFound(
    names.size === 0
      ? 'the files hold no tensor'
      : `no tensor has a name that begins with ${shown(prefix)}; there are ${some.join(', ')}`,
  );
}

function withoutPrefix(tensors: readonly JoinedTensor[], prefix = ''): JoinedTensor[] {
  return tensors.map((each) => ({ ...each, name: each.name.slice(prefix.length) }));
}

/** Finds the places of archived parts in their files. */
async function withPlaces({ tensors, archived }: Tensors, sources: Sources): Promise<FoundTensor[]> {
  const found = await atATime(archived, PLACES_AT_ONCE, async (part): Promise<FoundTensor> => {
    const source = sources.get(part.file) as RandomSource;
    return { ...part, fileOffsetBytes: await placeOfPart(source, part) };
  });
  return [...tensors, ...found];
}

/** `InvalidArgument`: two files would have one name. */
function filesOf({ files, index }: TensorFiles, copied: readonly FileRecord[]) {
  const made = files.map(({ name, sizeBytes }) => ({ name, sizeBytes }));
  if (index) made.push({ name: index.name, sizeBytes: index.bytes.byteLength });
  const twice = copied.find(({ name }) => made.some((file) => file.name === name));
  if (!twice) return [...made, ...copied.map(({ name, sizeBytes }) => ({ name, sizeBytes }))];
  const why = `${shown(twice.name)} would be copied, and the export writes a file of this name; choose other files to copy`;
  throw new CheckpointError('InvalidArgument', why, { context: { name: twice.name } });
}

type Sources = ReadonlyMap<string, RandomSource>;

interface Work {
  readonly made: TensorFiles;
  readonly sources: Sources;
  readonly copied: readonly FileRecord[];
}

async function writeAll(run: RunContext, { made, sources, copied }: Work, options: Options): Promise<void> {
  const target = await openTarget(run, options);
  try {
    for (const file of made.files) await writeTensorFile(target, file, { sources, ...options });
    if (made.index) await writeWhole(target, made.index);
    const items = copied.map((file) => {
      const { name, sizeBytes } = file;
      return { file, sink: () => target.open({ name, sizeBytes }) };
    });
    await run.transfers.download(items, transferOptions(options));
    await allUnchanged(sources.values());
    await target.publish();
  } catch (error) {
    await target.discard();
    throw error;
  }
}

async function allUnchanged(sources: Iterable<RandomSource>): Promise<void> {
  for (const source of sources) await source.assertUnchanged();
}

async function writeWhole(
  target: RestoreTarget,
  { name, bytes }: { readonly name: string; readonly bytes: Uint8Array },
): Promise<void> {
  const sink = await target.open({ name, sizeBytes: bytes.byteLength });
  await sink.writeAt(0, bytes);
  await sink.close();
}
