/** Writes an ElasticDL file: each piece goes to its position as it arrives. */

import type { RandomSink, RestoreTarget } from '@holdfast/core/contract';
import { DIRECT_ALIGNMENT_BYTES } from '@holdfast/local-files';
import { type FileOutline, outlineFile } from '../codec/outline-file.ts';
import { encodeIds, idsBytes } from '../codec/write-ids.ts';
import { itemBytes } from '../dtype.ts';
import type { WrittenForm } from '../layout.ts';
import type { ShardOutline, ShardSink } from '../sink.ts';
import { allEnded } from './at-once.ts';
import { writeFromPage } from './write-from-page.ts';

interface TableSpace {
  readonly rowBytes: number;
  valuesOffsetBytes: number;
  /** Offset of the next rows' ids. */
  nextIdsOffsetBytes: number;
}

export class FileSink implements ShardSink {
  readonly #target: RestoreTarget;
  readonly #name: string;
  readonly #form: WrittenForm;
  #sink: RandomSink | null = null;
  #sizeBytes = 0;
  readonly #dense = new Map<string, number>();
  readonly #tables = new Map<string, TableSpace>();

  /** The code that opened the target publishes or discards it. */
  constructor(target: RestoreTarget, name: string, form: WrittenForm) {
    this.#target = target;
    this.#name = name;
    this.#form = form;
  }

  /** Size of the file, once it has begun. */
  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  async begin(outline: ShardOutline): Promise<void> {
    const file = outlineFile(outline, this.#form);
    this.#place(outline, file);
    this.#sizeBytes = file.sizeBytes;
    const sink = await this.#target.open({ name: this.#name, sizeBytes: file.sizeBytes });
    this.#sink = sink;
    for (const piece of file.pieces)
      if (piece.kind === 'literal') await sink.writeAt(piece.offsetBytes, piece.bytes);
  }

  async putDense(name: string, offsetBytes: number, bytes: Uint8Array): Promise<void> {
    await this.#write((this.#dense.get(name) ?? 0) + offsetBytes, bytes);
  }

  async putRows(table: string, firstRow: number, ids: BigInt64Array, values: Uint8Array): Promise<void> {
    const space = this.#tables.get(table);
    if (space === undefined) return;
    const encoded = new Uint8Array(idsBytes(ids));
    encodeIds(ids, encoded);
    const idsOffsetBytes = space.nextIdsOffsetBytes;
    space.nextIdsOffsetBytes += encoded.byteLength;
    await allEnded([
      this.#write(space.valuesOffsetBytes + firstRow * space.rowBytes, values),
      this.#write(idsOffsetBytes, encoded),
    ]);
  }

  placeInPage(table: string, firstRow: number): number {
    const space = this.#tables.get(table);
    if (space === undefined) return 0;
    return (space.valuesOffsetBytes + firstRow * space.rowBytes) % DIRECT_ALIGNMENT_BYTES;
  }

  async end(): Promise<void> {
    await this.#sink?.close();
  }

  #place({ tables }: ShardOutline, { pieces }: FileOutline): void {
    for (const { name, dtype, dim } of tables)
      this.#tables.set(name, {
        rowBytes: dim * itemBytes(dtype),
        valuesOffsetBytes: 0,
        nextIdsOffsetBytes: 0,
      });
    for (const piece of pieces) {
      if (piece.kind === 'dense') this.#dense.set(piece.name, piece.offsetBytes);
      const space = piece.kind === 'literal' ? undefined : this.#tables.get(piece.name);
      if (space === undefined) continue;
      if (piece.kind === 'values') space.valuesOffsetBytes = piece.offsetBytes;
      if (piece.kind === 'ids') space.nextIdsOffsetBytes = piece.offsetBytes;
    }
  }

  async #write(offsetBytes: number, bytes: Uint8Array): Promise<void> {
    if (this.#sink !== null) await writeFromPage(this.#sink, offsetBytes, bytes);
  }
}
