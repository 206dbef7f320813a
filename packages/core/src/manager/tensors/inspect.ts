/** The tensors of a checkpoint, from the headers of its files. */

import { atATime } from '../../contract/at-a-time.ts';
import type {
  InspectedFile,
  InspectedTensor,
  InspectOptions,
  InspectResult,
} from '../../contract/history.ts';
import { compareUtf8 } from '../../contract/object-key.ts';
import type { FileRecord } from '../../format/index.ts';
import { isSafetensors } from '../../plan/safetensors.ts';
import { withLeasedManifest } from '../read/index.ts';
import { readSlices } from '../records/index.ts';
import { type RunContext, readRun } from '../run/index.ts';
import { describedParts, isDistcp, isDistcpMetadata } from './distcp-files.ts';
import { HeaderReader } from './scan-tensors.ts';

/** Reading a header is mostly waiting. */
const FILES_AT_ONCE = 16;

export async function inspect(
  run: RunContext,
  { version = 'latest', ...options }: InspectOptions & { readonly signal: AbortSignal },
): Promise<InspectResult> {
  await readRun(run, options.signal);
  return withLeasedManifest(run, { version, signal: options.signal }, async ({ id, manifest, signal }) => {
    const headers = new HeaderReader(run);
    const files: InspectedFile[] = [];
    const metadata: FileRecord[] = [];
    let bytesRead = 0;
    for await (const { writer, files: records } of readSlices(run, manifest, { signal })) {
      const inspected = await atATime(records, FILES_AT_ONCE, async (record) => {
        const found = await inspectFile(headers, record, { ...options, signal });
        bytesRead += found.bytesRead;
        return { name: record.name, writer, sizeBytes: record.sizeBytes, ...found.said };
      });
      for (const file of inspected) files.push(file);
      metadata.push(...records.filter(({ name }) => isDistcpMetadata(name)));
    }
    files.sort((a, b) => compareUtf8(a.name, b.name));
    if (!files.some(({ name }) => isDistcp(name))) return { id, files, bytesRead };
    const described = await describedFiles(run, metadata, { signal });
    return {
      id,
      files: files.map((file) => withDescribed(file, described)),
      bytesRead: bytesRead + described.bytesRead,
    };
  });
}

async function inspectFile(
  headers: HeaderReader,
  record: FileRecord,
  options: Omit<InspectOptions, 'version'> & { readonly signal: AbortSignal },
): Promise<{ readonly said: Pick<InspectedFile, 'tensors' | 'note'>; readonly bytesRead: number }> {
  if (!isSafetensors(record.name)) return { said: { tensors: null, note: '' }, bytesRead: 0 };
  const { scan, bytesRead } = await headers.read(record, options);
  if (scan.problem !== undefined)
    return { said: { tensors: null, note: `it is not read as safetensors: ${scan.problem}` }, bytesRead };
  const tensors = [...scan.tensors].map(([name, { crc32c: _, ...tensor }]) => ({ name, ...tensor }));
  return { said: { tensors, note: '' }, bytesRead };
}

/** The contents of all `.metadata` files, by the names of the files that they describe. */
interface Described {
  readonly tensors: ReadonlyMap<string, readonly InspectedTensor[]>;
  /** Why a `.metadata` file could not be read, by its own name. */
  readonly notes: ReadonlyMap<string, string>;
  readonly bytesRead: number;
}

async function describedFiles(
  run: RunContext,
  metadata: readonly FileRecord[],
  options: { readonly signal: AbortSignal },
): Promise<Described> {
  const tensors = new Map<string, InspectedTensor[]>();
  const notes = new Map<string, string>();
  let bytesRead = 0;
  for (const file of metadata) {
    const { parts, problem, ...read } = await describedParts(run, file, options);
    bytesRead += read.bytesRead;
    if (problem !== undefined) notes.set(file.name, `it is not read as metadata of DCP: ${problem}`);
    for (const { file: holder, name, dtype, shape, sizeBytes, offsets } of parts) {
      const found = tensors.get(holder) ?? [];
      found.push({ name, dtype, shape, sizeBytes, offsets, fileOffsetBytes: null });
      tensors.set(holder, found);
    }
  }
  return { tensors, notes, bytesRead };
}

function withDescribed(file: InspectedFile, { tensors, notes }: Described): InspectedFile {
  const found = isDistcp(file.name) ? tensors.get(file.name) : undefined;
  const note = notes.get(file.name);
  if (found) return { ...file, tensors: found };
  return note === undefined ? file : { ...file, note };
}
