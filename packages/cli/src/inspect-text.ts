/** The tensors of a checkpoint, for people. Pure. */

import type { InspectResult } from '@holdfast/core/contract';
import { type InspectedFile, type InspectedTensor, referenceText } from '@holdfast/core/contract';
import { formatBytes, formatPlural, printable } from './format.ts';
import type { Style } from './style.ts';
import { type Column, tableLines } from './table.ts';

/** A part of a tensor, and the file that holds it. */
export interface Part {
  readonly tensor: InspectedTensor;
  readonly file: InspectedFile;
}

/** All parts of one tensor. */
export interface WholeTensor {
  readonly name: string;
  readonly parts: readonly [Part, ...Part[]];
  /** Large enough for all parts. */
  readonly shape: readonly number[];
  readonly sizeBytes: number;
}

/** Sorted by name. Parts are ordered by their offsets in the tensor. */
export function wholeTensors(files: readonly InspectedFile[]): WholeTensor[] {
  const parts = files.flatMap((file) => (file.tensors ?? []).map((tensor): Part => ({ tensor, file })));
  const byName = Map.groupBy(parts, ({ tensor }) => tensor.name);
  return [...byName]
    .map(([name, found]) => {
      const [first, ...rest] = found.toSorted((a, b) => comparePlaces(a.tensor, b.tensor));
      const all: [Part, ...Part[]] = [first as Part, ...rest];
      return { name, parts: all, shape: shapeOf(all), sizeBytes: sumOf(all) };
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

function comparePlaces({ offsets: a }: InspectedTensor, { offsets: b }: InspectedTensor): number {
  const index = (a ?? []).findIndex((offset, at) => offset !== (b ?? [])[at]);
  return index < 0 ? 0 : ((a ?? [])[index] ?? 0) - ((b ?? [])[index] ?? 0);
}

function shapeOf(parts: readonly Part[]): number[] {
  const ends = parts.map(({ tensor: { shape, offsets } }) =>
    shape.map((side, dimension) => side + (offsets?.[dimension] ?? 0)),
  );
  return (ends[0] ?? []).map((_, dimension) => Math.max(...ends.map((end) => end[dimension] ?? 0)));
}

function sumOf(parts: readonly Part[]): number {
  return parts.reduce((sum, { tensor }) => sum + tensor.sizeBytes, 0);
}

const COLUMNS: readonly Column[] = [
  { title: 'TENSOR', align: 'left' },
  { title: 'TYPE', align: 'left' },
  { title: 'SHAPE', align: 'left' },
  { title: 'SIZE', align: 'right' },
  { title: 'WRITER', align: 'right' },
  { title: 'FILE', align: 'left' },
];

export interface InspectTextOptions {
  readonly style: Style;
  /** A line for each part of a tensor, with its place. */
  readonly withParts: boolean;
}

export function* inspectText(
  { id, files }: InspectResult,
  { style, withParts }: InspectTextOptions,
): Iterable<string> {
  const tensors = wholeTensors(files);
  const sizeBytes = tensors.reduce((sum, tensor) => sum + tensor.sizeBytes, 0);
  const holders = files.filter((file) => file.tensors !== null).length;
  const counted = `${formatPlural(tensors.length, 'tensor')}   ${formatBytes(sizeBytes)}   in ${formatPlural(holders, 'file')}`;
  yield `${style('bold', `version ${referenceText({ version: id.version })}`)}   ${counted}`;
  if (tensors.length > 0) {
    yield '';
    const rows = withParts
      ? tableLines(
          COLUMNS,
          tensors.flatMap(({ parts }) => parts),
          partRow,
        )
      : tableLines(COLUMNS, tensors, tensorRow);
    let isTitle = true;
    for (const line of rows) {
      yield isTitle ? style('bold', line) : line;
      isTitle = false;
    }
  }
  yield* notesOf(files);
}

function tensorRow({ name, parts, shape, sizeBytes }: WholeTensor): string[] {
  const [{ tensor, file }, ...others] = parts;
  const isWhole = others.length === 0;
  return [
    printable(name),
    printable(tensor.dtype),
    `[${shape.join(', ')}]`,
    formatBytes(sizeBytes),
    isWhole
      ? String(file.writer)
      : formatPlural(new Set(parts.map((part) => part.file.writer)).size, 'writer'),
    isWhole ? printable(file.name) : formatPlural(parts.length, 'part'),
  ];
}

function partRow({ tensor, file }: Part): string[] {
  const { name, dtype, shape, offsets, sizeBytes } = tensor;
  const place = offsets?.some((offset) => offset > 0) ? ` at [${offsets.join(', ')}]` : '';
  return [
    printable(name),
    printable(dtype),
    `[${shape.join(', ')}]${place}`,
    formatBytes(sizeBytes),
    String(file.writer),
    printable(file.name),
  ];
}

function* notesOf(files: readonly InspectedFile[]): Iterable<string> {
  const others = files.filter((file) => file.tensors === null);
  if (others.length === 0) return;
  yield '';
  for (const { name, sizeBytes, note } of others) {
    const why = note === '' ? 'no safetensors file' : note;
    yield `${printable(name)}   ${formatBytes(sizeBytes)}   ${printable(why)}`;
  }
}
