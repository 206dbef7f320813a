/** Finds the positions of everything in a shard's file, in any form. */

import type { RandomSource } from '@holdfast/core/contract';
import { dtypeOfNumber, itemBytes } from '../dtype.ts';
import type { DtypeNumbering, ShardLayout, TablePlace, TensorPlace } from '../layout.ts';
import type { Dtype, TableInfo } from '../model.ts';
import { type InfoEntry, readEntries, type ShardEntries, type TensorEntry } from './read-entries.ts';
import { corrupt, quoted } from './read-errors.ts';
import { type FormFacts, formOf } from './read-form.ts';
import { WireCursor } from './wire-cursor.ts';

export interface LayoutOptions {
  /** Name of the file in messages. */
  name: string;
  /**
   * Numbering of types in a list of tensors (S3 to S5), if the caller knows it. Other forms ignore
   * it.
   */
  numbering?: DtypeNumbering | undefined;
  signal?: AbortSignal | undefined;
}

/** Keeps computations with shapes exact. */
const TENSOR_BYTES_MAX = Number.MAX_SAFE_INTEGER;
/**
 * The type of a table that declares none: ElasticDL's default, although numpy's default for an
 * empty array is float64.
 */
const TABLE_DTYPE: Dtype = 'float32';

/**
 * Reads the structure and skips the contents: some KiB around each header, no byte twice. The cost
 * does not grow with the file, with one exception: ids that are not packed are scanned, because no
 * length says where they end. Memory is a few hundred bytes for each tensor.
 *
 * A tensor is a table if it has ids or an info, or is in the map of tables. A table without rows
 * takes type and dim from its info if its shape is `[0]`. ElasticDL itself reads no tensor without
 * dimensions up to S5; here it is a scalar if its content is one element. If two infos have the
 * same name, the first counts. Unknown fields are ignored.
 *
 * `Corrupt`, with file, tensor and offset:
 * - the file is cut off, or is of no form or of two
 * - a size differs from the shape's, or a type does not exist
 * - a name occurs twice or is not UTF-8
 * - rows have no info (from S4 on, if there are infos at all), or another dim than their info
 * - the number of rows cannot match the ids
 *
 * `InvalidArgument`: a type number means float16 in ElasticDL's numbering and int16 in
 * TensorFlow's, and nothing else in the file decides.
 */
export async function readShardLayout(source: RandomSource, options: LayoutOptions): Promise<ShardLayout> {
  const { name: file, numbering, signal } = options;
  const entries = await readEntries(new WireCursor(source, { name: file, signal }));
  return new LayoutBuilder(file, entries, formOf(entries, file, numbering)).layout();
}

class LayoutBuilder {
  readonly #file: string;
  readonly #entries: ShardEntries;
  readonly #facts: FormFacts;
  readonly #infos = new Map<string, TableInfo>();
  readonly #dense = new Map<string, TensorPlace>();
  readonly #tables = new Map<string, TablePlace>();

  constructor(file: string, entries: ShardEntries, facts: FormFacts) {
    this.#file = file;
    this.#entries = entries;
    this.#facts = facts;
  }

  layout(): ShardLayout {
    const { infos, tensors, version } = this.#entries;
    for (const info of infos) {
      if (!this.#infos.has(info.name)) this.#infos.set(info.name, this.#info(info));
    }
    for (const tensor of tensors) {
      if (this.#dense.has(tensor.name) || this.#tables.has(tensor.name)) {
        throw this.#corrupt(tensor, 'there is a second tensor of this name');
      }
      if (this.#isTable(tensor)) this.#tables.set(tensor.name, this.#table(tensor));
      else this.#dense.set(tensor.name, this.#denseTensor(tensor));
    }
    return {
      ...this.#facts,
      version,
      infos: [...this.#infos.values()],
      dense: [...this.#dense.values()],
      tables: [...this.#tables.values()],
    };
  }

  #info({ name, dim, initializer, dtypeNumber, offsetBytes }: InfoEntry): TableInfo {
    const dtype = dtypeOfNumber(dtypeNumber, this.#facts.numbering ?? 'tensorflow');
    if (dtype === null && dtypeNumber !== 0) {
      const what = `the info of table ${quoted(name)}`;
      throw corrupt({ file: this.#file, what, offsetBytes, problem: `there is no type ${dtypeNumber}` });
    }
    return { name, dim, initializer, dtype };
  }

  #isTable({ kind, ids, name }: TensorEntry): boolean {
    if (kind === 'table6' || kind === 'table7') return true;
    if (kind === 'dense6' || kind === 'dense7') return false;
    return ids.runs.length > 0 || this.#infos.has(name);
  }

  #denseTensor(tensor: TensorEntry): TensorPlace {
    const { name, shape, content } = tensor;
    if (this.#infos.has(name)) {
      throw this.#corrupt(tensor, 'it is a dense variable, and an info says that it is a table');
    }
    const dtype = this.#dtype(tensor);
    this.#checkSize(tensor, dtype);
    return { name, dtype, shape, content };
  }

  #table(tensor: TensorEntry): TablePlace {
    const { name, shape, content, ids } = tensor;
    const info = this.#infos.get(name);
    const [rowCount = 0, dim = info?.dim ?? 0] = shape;
    const isEmpty = shape.length === 1 && rowCount === 0;
    const dtype =
      rowCount === 0 && (isEmpty || tensor.dtypeNumber === 0)
        ? (info?.dtype ?? TABLE_DTYPE)
        : this.#dtype(tensor);
    if (!isEmpty && shape.length !== 2) {
      throw this.#corrupt(tensor, 'the rows of a table have another shape', '[rows, dim]', `[${shape}]`);
    }
    this.#checkSize({ ...tensor, shape: isEmpty ? [0, dim] : shape }, dtype);
    if (rowCount < ids.countMin || rowCount > ids.countMax) {
      const { countMin, countMax } = ids;
      const found = countMin === countMax ? `${countMin}` : `${countMin} to ${countMax}`;
      throw this.#corrupt(tensor, 'ids and rows of different count', `${rowCount} ids`, found, 'table');
    }
    if (rowCount > 0) this.#checkInfo(tensor, dim, info);
    return { name, dtype, dim, rowCount, values: content, ids: ids.runs };
  }

  #checkInfo(tensor: TensorEntry, dim: number, info: TableInfo | undefined): void {
    const { form } = this.#facts;
    if (!info && (this.#infos.size > 0 || form === 'S5' || form === 'S6' || form === 'S7')) {
      throw this.#corrupt(tensor, 'table row without info', undefined, undefined, 'table');
    }
    if (dim === 0) throw this.#corrupt(tensor, 'the rows have no elements', undefined, undefined, 'table');
    // Some servers in Go left the dim of an info at 0.
    if (info && info.dim !== 0 && info.dim !== dim) {
      throw this.#corrupt(
        tensor,
        'its rows are not what its info says',
        `${info.dim} elements`,
        `${dim}`,
        'table',
      );
    }
  }

  #dtype(tensor: TensorEntry): Dtype {
    const { dtypeNumber, kind } = tensor;
    const { form, numbering } = this.#facts;
    if (form === 'S0' || form === 'S1') return 'float32';
    const isTensorflow = kind !== 'list' && kind !== 'map' && kind !== 'branch';
    // Without a known numbering, either there are no elements, or both numberings mean the same
    // type.
    const dtype = isTensorflow
      ? dtypeOfNumber(dtypeNumber, 'tensorflow')
      : dtypeOfNumber(dtypeNumber, numbering ?? 'elasticdl');
    if (dtype === null) {
      const said = `type ${dtypeNumber}${dtypeNumber === 0 ? ' (none)' : ''}`;
      throw this.#corrupt(tensor, `its elements have ${said}, which no variable has`);
    }
    return dtype;
  }

  #checkSize(tensor: TensorEntry, dtype: Dtype): void {
    const { shape, content } = tensor;
    // Leave zeros out, because a product of 0 would hide a dimension that is too large.
    const product = shape.reduce((sofar, dim) => sofar * Math.max(dim, 1), itemBytes(dtype));
    if (product > TENSOR_BYTES_MAX) {
      throw this.#corrupt(tensor, `the shape [${shape}] asks for more than 2^53 bytes`);
    }
    const expectedBytes = shape.includes(0) ? 0 : product;
    if (content.lengthBytes === expectedBytes) return;
    const expected = `${expectedBytes} bytes for ${dtype} [${shape.join(', ')}]`;
    const at = { ...tensor, offsetBytes: content.offsetBytes };
    throw this.#corrupt(at, 'size mismatch', expected, `${content.lengthBytes} bytes`);
  }

  #corrupt(
    { name, offsetBytes }: TensorEntry,
    problem: string,
    expected?: string,
    found?: string,
    noun = 'tensor',
  ): Error {
    const compared = expected !== undefined && found !== undefined ? { expected, found } : {};
    const what = `${noun} ${quoted(name)}`;
    return corrupt({ file: this.#file, what, offsetBytes, problem, ...compared });
  }
}
