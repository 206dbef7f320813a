/** Finds the tensors to export, and the files that are copied. */

import { atATime } from '../../contract/at-a-time.ts';
import { shown } from '../../contract/checks.ts';
import { CheckpointError } from '../../contract/errors.ts';
import type { ExportTensorsOptions } from '../../contract/exporting.ts';
import type { FileRecord } from '../../format/index.ts';
import type { ArchivedPart } from '../../plan/distcp.ts';
import { chooserOf, matcherOf } from '../../plan/globs.ts';
import type { FoundTensor } from '../../plan/joined-tensors.ts';
import { isSafetensors } from '../../plan/safetensors.ts';
import type { RunContext } from '../run/index.ts';
import { describedParts, isDistcp, isDistcpMetadata } from './distcp-files.ts';
import { shapesWithLeftOut } from './left-out-parts.ts';
import { HeaderReader } from './scan-tensors.ts';
import { isShapeRecord, readShapes, type Shapes } from './shape-record.ts';

/** Each header waits for the store. */
const FILES_AT_ONCE = 16;

type Options = Pick<ExportTensorsOptions, 'from' | 'also'> & { readonly signal: AbortSignal };

export interface Found {
  readonly tensors: readonly FoundTensor[];
  /** Tensors whose places in their files are not known yet. */
  readonly archived: readonly ArchivedPart[];
  /** Shapes of whole tensors, as far as records tell. */
  readonly shapes: Shapes;
  /** The files with tensors, by name. */
  readonly records: ReadonlyMap<string, FileRecord>;
  /** Files that are copied as they are. */
  readonly copied: readonly FileRecord[];
}

/**
 * `NotFound`: no file matches. `InvalidArgument`: a file is not in its format. `Unsupported`: a
 * record is too large to be read.
 */
export async function findTensors(
  run: RunContext,
  slices: AsyncIterable<{ readonly files: readonly FileRecord[] }>,
  options: Options,
): Promise<Found> {
  const chosen = await chooseFiles(slices, options);
  const { from, signal } = options;
  const [distcp, safetensors] = partition([...chosen.records.values()], ({ name }) => isDistcp(name));
  const headers = new HeaderReader(run);
  const read = await atATime(safetensors, FILES_AT_ONCE, (file) => tensorsIn(headers, file, { signal }));
  const shapes = chosen.shapeRecord ? await readShapes(run, chosen.shapeRecord, { signal }) : new Map();
  // Holdfast checks when it saves that all parts are there; only a choice of files can lack some.
  if (shapes === null && from)
    throw new CheckpointError(
      'Unsupported',
      'its metadata.json is too large to tell whether the chosen files hold all parts; export from all files',
    );
  const archived = distcp.length > 0 ? await archivedIn(run, distcp, chosen.metadata, { signal }) : [];
  const said = archived.map(({ name, wholeShape }) => [name, wholeShape] as const);
  const tensors = read.flat();
  const told = new Map([...(shapes ?? []), ...said]);
  return {
    tensors,
    archived,
    shapes: await shapesWithLeftOut(headers, chosen.leftOut, { tensors, shapes: told, signal }),
    records: chosen.records,
    copied: chosen.copied,
  };
}

interface Chosen extends Pick<Found, 'records' | 'copied'> {
  readonly shapeRecord: FileRecord | undefined;
  readonly metadata: readonly FileRecord[];
  /** Safetensors files from which nothing is exported. */
  readonly leftOut: readonly FileRecord[];
}

async function chooseFiles(
  slices: AsyncIterable<{ readonly files: readonly FileRecord[] }>,
  { from, also = [] }: Options,
): Promise<Chosen> {
  const chooser = from && chooserOf(from);
  const isRead = (name: string) => chooser?.matches(name) ?? (isSafetensors(name) || isDistcp(name));
  const globs = also.map((glob) => ({ glob, matches: matcherOf([glob]), count: 0 }));
  const records = new Map<string, FileRecord>();
  const copied: FileRecord[] = [];
  const metadata: FileRecord[] = [];
  const leftOut: FileRecord[] = [];
  let shapeRecord: FileRecord | undefined;
  for await (const { files } of slices)
    for (const file of files) {
      if (isRead(file.name)) records.set(file.name, file);
      else if (isSafetensors(file.name)) leftOut.push(file);
      const matching = globs.filter(({ matches }) => matches(file.name));
      for (const glob of matching) glob.count += 1;
      if (matching.length > 0) copied.push(file);
      if (isDistcpMetadata(file.name)) metadata.push(file);
      if (isShapeRecord(file)) shapeRecord = file;
    }
  const unused = chooser?.unused() ?? globs.find(({ count }) => count === 0)?.glob;
  if (unused !== undefined) throw nothingFound(`no file of the checkpoint matches ${shown(unused)}`);
  if (records.size > 0) return { records, copied, shapeRecord, metadata, leftOut };
  throw nothingFound('no file of the checkpoint is a .safetensors or .distcp file');
}

async function tensorsIn(
  headers: HeaderReader,
  file: FileRecord,
  options: Pick<Options, 'signal'>,
): Promise<FoundTensor[]> {
  const { scan } = await headers.read(file, options);
  if (scan.problem === undefined)
    return [...scan.tensors].map(([name, tensor]) => ({ ...tensor, name, file: file.name }));
  throw notRead(file.name, `as safetensors: ${scan.problem}`);
}

/** Parts in these files. Each file with parts must be described. */
async function archivedIn(
  run: RunContext,
  files: readonly FileRecord[],
  metadata: readonly FileRecord[],
  options: Pick<Options, 'signal'>,
): Promise<ArchivedPart[]> {
  const names = new Set(files.map(({ name }) => name));
  const archived: ArchivedPart[] = [];
  for (const file of metadata) {
    const { parts, problem } = await describedParts(run, file, options);
    if (problem !== undefined) throw notRead(file.name, `as metadata of DCP: ${problem}`);
    for (const part of parts) if (names.has(part.file)) archived.push(part);
  }
  if (metadata.length > 0) return archived;
  const [first] = names;
  throw notRead(first as string, 'without the .metadata file that DCP writes beside it');
}

function partition<T>(items: readonly T[], isFirst: (item: T) => boolean): [T[], T[]] {
  return [items.filter(isFirst), items.filter((item) => !isFirst(item))];
}

function notRead(name: string, why: string): CheckpointError {
  return new CheckpointError('InvalidArgument', `${shown(name)} is not read ${why}`, { context: { name } });
}

export function nothingFound(why: string): CheckpointError {
  return new CheckpointError('NotFound', why, { context: { tensors: 'missing' } });
}
