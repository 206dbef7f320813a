import type { ProgressEvent } from '@holdfast/core/contract';
import type { ShardSet } from '../shard-set.ts';
import type { DividedTable } from './divide-ids.ts';
import type { DenseMove } from './move-dense.ts';

/** Reports how many bytes of rows and variables were moved, for each file that is read. */
export class MoveProgress {
  readonly #set: ShardSet;
  readonly #report: ((event: ProgressEvent) => void) | undefined;
  /** By index of the file: bytes to move. */
  readonly #totalBytes: Float64Array;
  readonly #doneBytes: Float64Array;

  constructor(
    set: ShardSet,
    version: number,
    moves: {
      readonly tables: readonly DividedTable[];
      readonly dense: readonly DenseMove[];
      readonly report: ((event: ProgressEvent) => void) | undefined;
    },
  ) {
    this.#set = set;
    this.#report = moves.report;
    this.#totalBytes = totalsOf(set.shards.length, moves);
    this.#doneBytes = new Float64Array(set.shards.length);
    const files = set.shards.map(({ name }, file) => ({ name, sizeBytes: this.#totalBytes[file] ?? 0 }));
    this.#report?.({
      type: 'planned',
      version: set.version ?? BigInt(version),
      fileCount: files.length,
      sizeBytes: this.#totalBytes.reduce((sum, bytes) => sum + bytes, 0),
      files,
    });
  }

  moved(file: number, bytes: number): void {
    const doneBytes = (this.#doneBytes[file] ?? 0) + bytes;
    this.#doneBytes[file] = doneBytes;
    const name = this.#set.shards[file]?.name ?? '';
    this.#report?.({ type: 'bytes', name, doneBytes, totalBytes: this.#totalBytes[file] ?? 0 });
  }
}

function totalsOf(
  fileCount: number,
  { tables, dense }: { readonly tables: readonly DividedTable[]; readonly dense: readonly DenseMove[] },
): Float64Array {
  const totals = new Float64Array(fileCount);
  const add = (file: number, bytes: number) => {
    totals[file] = (totals[file] ?? 0) + bytes;
  };
  for (const { file, place } of dense) add(file, place.content.lengthBytes);
  for (const { table, parts } of tables)
    for (const { file, records } of parts)
      add(file, records.reduce((sum, { count }) => sum + count, 0) * table.rowBytes);
  return totals;
}
