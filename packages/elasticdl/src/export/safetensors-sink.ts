import type { RandomSink, RestoreTarget, WriterState } from '@holdfast/core/contract';
import { DIRECT_ALIGNMENT_BYTES } from '@holdfast/local-files';
import { itemBytes } from '../dtype.ts';
import { allEnded } from '../scatter/at-once.ts';
import { writeFromPage } from '../scatter/write-from-page.ts';
import type { ShardOutline, ShardSink, TableOutline } from '../sink.ts';
import { DenseTable, type Memory } from './dense-table.ts';
import { type ExportPlan, planExport, type TablePlan } from './export-plan.ts';
import type { TableOptions } from './table-storage.ts';

export interface SafetensorsSinkOptions extends TableOptions<number> {
  /** Name of the file. */
  readonly name: string;
  /**
   * Memory for assembling dense tables. A table that does not fit is written in pieces, row by row
   * if its ids are not consecutive.
   */
  readonly denseBytes: number;
  /** As in `ShardSet`; recorded in the file. */
  readonly writers?: readonly WriterState[] | undefined;
}

interface TableInWork {
  readonly plan: TablePlan;
  readonly rowBytes: number;
  readonly dense: DenseTable | null;
}

/**
 * Writes a whole model to one safetensors file. Unwritten parts of the target's file must read as
 * zeros. Tables must hold each id once. `begin` fails with `InvalidArgument` if the model does not
 * fit such a file. So does `putRows` if the ids were not checked before.
 */
export class SafetensorsSink implements ShardSink {
  readonly #target: RestoreTarget;
  readonly #options: SafetensorsSinkOptions;
  readonly #tables = new Map<string, TableInWork>();
  readonly #memory: Memory;
  #plan: ExportPlan | null = null;
  #sink: RandomSink | null = null;

  /** The code that opened the target publishes or discards it. */
  constructor(target: RestoreTarget, options: SafetensorsSinkOptions) {
    this.#target = target;
    this.#options = options;
    this.#memory = { leftBytes: options.denseBytes };
  }

  /** Available once `begin` was called. */
  get plan(): ExportPlan {
    if (this.#plan === null) throw new Error('the exported file was requested before it was begun');
    return this.#plan;
  }

  async begin(outline: ShardOutline): Promise<void> {
    const plan = planExport(outline, this.#options, this.#options.writers);
    this.#plan = plan;
    for (const table of outline.tables) this.#openTable(table, plan.tables.get(table.name));
    const { header, sizeBytes } = plan.layout;
    this.#sink = await this.#target.open({ name: this.#options.name, sizeBytes });
    await this.#write(0, header);
  }

  async putDense(name: string, offsetBytes: number, bytes: Uint8Array): Promise<void> {
    await this.#write((this.plan.dense.get(name) ?? 0) + offsetBytes, bytes);
  }

  async putRows(table: string, firstRow: number, ids: BigInt64Array, values: Uint8Array): Promise<void> {
    const found = this.#tables.get(table);
    if (found === undefined) return; // this table is not exported
    const { plan, rowBytes, dense } = found;
    if (plan.kind === 'dense') {
      await dense?.put(ids, values);
      return;
    }
    const idBytes = new Uint8Array(ids.buffer, ids.byteOffset, ids.byteLength);
    await allEnded([
      this.#write(plan.valuesOffsetBytes + firstRow * rowBytes, values),
      this.#write(plan.idsOffsetBytes + firstRow * ids.BYTES_PER_ELEMENT, idBytes),
    ]);
  }

  placeInPage(table: string, firstRow: number): number {
    const found = this.#tables.get(table);
    if (found?.plan.kind !== 'sparse') return 0;
    return (found.plan.valuesOffsetBytes + firstRow * found.rowBytes) % DIRECT_ALIGNMENT_BYTES;
  }

  async end(): Promise<void> {
    for (const { dense } of this.#tables.values()) await dense?.end();
    await this.#sink?.close();
  }

  #openTable({ name, dtype, dim, rowCount: presentCount }: TableOutline, plan: TablePlan | undefined): void {
    if (plan === undefined) return;
    const rowBytes = dim * itemBytes(dtype);
    const open = (offset: number, rowCount: number) => {
      const write = async (offsetBytes: number, bytes: Uint8Array) => {
        await this.#sink?.writeAt(offset + offsetBytes, bytes);
      };
      return new DenseTable({ name, rowBytes, rowCount, presentCount, memory: this.#memory, write });
    };
    const dense = plan.kind === 'dense' ? open(plan.offsetBytes, plan.rowCount) : null;
    this.#tables.set(name, { plan, rowBytes, dense });
  }

  async #write(offsetBytes: number, bytes: Uint8Array): Promise<void> {
    if (this.#sink !== null) await writeFromPage(this.#sink, offsetBytes, bytes);
  }
}
