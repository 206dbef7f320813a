/**
 * Reads the entries of a shard's file and classifies each by its own content. The number of a field
 * is not enough, because it means different things in the forms S0 to S7. `formOf` decides which
 * form it is, once all kinds of entries are known.
 */

import { FORMS, TENSORFLOW } from '@holdfast/wire/elasticdl';
import type { ByteRange } from '../layout.ts';
import { RANK_MAX } from './limits.ts';
import { quoted } from './read-errors.ts';
import { type Ids, MessageFields } from './read-fields.ts';
import { type FieldHeader, WIRE, type WireCursor } from './wire-cursor.ts';
import { type Field, type Nesting, noNesting, readFields } from './wire-message.ts';

/**
 * Kind of an entry. `map`: an entry of a map of tensors (S0 to S2). `branch`: a tensor with its
 * name in field 5 (S2a). `list`: one with its name in field 1 (S3 to S5). `info`: an info of a
 * table (S4 to S6). The others are entries that only S6 or S7 have.
 */
export type EntryKind =
  | 'map'
  | 'branch'
  | 'list'
  | 'info'
  | 'dense6'
  | 'table6'
  | 'info7'
  | 'dense7'
  | 'table7';

export interface TensorEntry {
  readonly kind: EntryKind;
  readonly name: string;
  readonly offsetBytes: number;
  /** 0 if the field is missing. */
  readonly dtypeNumber: number;
  readonly shape: readonly number[];
  readonly content: ByteRange;
  readonly ids: Ids;
}

export interface InfoEntry {
  readonly kind: EntryKind;
  readonly name: string;
  readonly offsetBytes: number;
  readonly dim: number;
  readonly initializer: string;
  /** 0 if the field is missing. */
  readonly dtypeNumber: number;
}

export interface ShardEntries {
  readonly version: number;
  readonly tensors: readonly TensorEntry[];
  readonly infos: readonly InfoEntry[];
  /** Each kind that occurs, with the offset of its first entry. */
  readonly kinds: ReadonlyMap<EntryKind, number>;
}

/** Limit for tensors, infos, dimensions and runs of ids together: each is an object in memory. */
const PARTS_MAX = 4_000_000;
/** Limit for all names and initializers together. */
const TEXT_BYTES_MAX = 67_108_864;

const MODEL = FORMS.S7.Model;
const INFO = FORMS.S7.EmbeddingTableInfo;
const SLICES = FORMS.S7.IndexedSlicesProto;
const LIST_TENSOR = FORMS.S5.Tensor;
const BRANCH_TENSOR = FORMS.S2a.Tensor;
const { TensorProto: PROTO, TensorShapeProto: SHAPE, Dim: DIM } = TENSORFLOW;
/** Field numbers of an entry of a map. */
const KEY = 1;
const VALUE = 2;
const NO_IDS: Ids = { runs: [], countMin: 0, countMax: 0 };
const NO_CONTENT: ByteRange = { offsetBytes: 0, lengthBytes: 0 };

/** Fields of TensorFlow's tensor that hold values one by one, in place of `tensor_content`. */
const VALUE_LISTS: ReadonlyMap<number, string> = new Map([
  [5, 'float_val'],
  [6, 'double_val'],
  [7, 'int_val'],
  [8, 'string_val'],
  [9, 'scomplex_val'],
  [10, 'int64_val'],
  [11, 'bool_val'],
  [12, 'dcomplex_val'],
  [13, 'half_val'],
  [14, 'resource_handle_val'],
  [15, 'variant_val'],
  [16, 'uint32_val'],
  [17, 'uint64_val'],
]);

// Each message is read when the cursor reaches it, in whatever form it is, so that no byte is read
// twice.
const shapeNesting: Nesting = ({ number }) => (number === SHAPE.dim ? noNesting : null);
const protoNesting: Nesting = ({ number }, _isLast, before) =>
  number === PROTO.tensorShape &&
  before.some((field) => field.kind === 'varints' && field.number === PROTO.dtype)
    ? shapeNesting
    : null;
/** The value is a tensor, whose first field is its type, or slices, which begin with a tensor. */
const valueNesting: Nesting = (header, isLast, before) =>
  header.number === SLICES.concatTensors ? protoNesting : protoNesting(header, isLast, before);
/**
 * Field 2 is the value of a map if it is the last field of its entry. In other forms it is a shape
 * or the content, and more fields follow.
 */
const paramNesting: Nesting = ({ number }, isLast, before) =>
  number === VALUE && isLast && before.every((field) => field.number === KEY) ? noNesting : null;

function nestingOf(number: number): Nesting {
  if (number === FORMS.S0.Model.param) return paramNesting;
  const nesting = number === MODEL.denseParameters ? protoNesting : valueNesting;
  return (header) => (header.number === VALUE ? nesting : null);
}

export async function readEntries(cursor: WireCursor): Promise<ShardEntries> {
  const reader = new EntryReader(cursor);
  while (cursor.position < cursor.sizeBytes) {
    cursor.what = null;
    await reader.readField(await cursor.header(Number.POSITIVE_INFINITY));
  }
  return reader.entries;
}

class EntryReader {
  readonly #cursor: WireCursor;
  readonly #tensors: TensorEntry[] = [];
  readonly #infos: InfoEntry[] = [];
  readonly #kinds = new Map<EntryKind, number>();
  #version = 0;
  #partCount = 0;
  #textBytes = 0;

  constructor(cursor: WireCursor) {
    this.#cursor = cursor;
  }

  get entries(): ShardEntries {
    return { version: this.#version, tensors: this.#tensors, infos: this.#infos, kinds: this.#kinds };
  }

  async readField(header: FieldHeader): Promise<void> {
    const { number, wireType, tagOffsetBytes } = header;
    const expected = number === MODEL.version ? WIRE.varint : WIRE.bytes;
    if (number <= MODEL.embeddingTables && wireType !== expected) {
      throw this.#cursor.corrupt(tagOffsetBytes, `field ${number} has wire type ${wireType}, as in no form`);
    }
    if (wireType === WIRE.varint) {
      const value = this.#cursor.int64(this.#cursor.sizeBytes);
      // As protobuf reads an int32: the lower half, and the last occurrence counts.
      if (number === MODEL.version) this.#version = Number(BigInt.asIntN(32, value));
      return;
    }
    const isEntry = wireType === WIRE.bytes && number <= FORMS.S6.Model.embeddingTables;
    const fields = isEntry ? await this.#entryFields(header) : [];
    const leftBytes = this.#cursor.sizeBytes - header.offsetBytes;
    if (header.lengthBytes > leftBytes) {
      throw this.#cursor.cutOff(tagOffsetBytes, number, header.lengthBytes, leftBytes);
    }
    this.#cursor.position = header.offsetBytes + header.lengthBytes;
    if (isEntry) await this.#addEntry(header, fields);
  }

  /**
   * Reads the fields of an entry, also of one that is cut off, so that the error about it can name
   * it.
   */
  #entryFields({ number, offsetBytes, lengthBytes }: FieldHeader): Promise<Field[]> {
    const endBytes = Math.min(offsetBytes + lengthBytes, this.#cursor.sizeBytes);
    return readFields(this.#cursor, endBytes, nestingOf(number));
  }

  async #addEntry({ number, tagOffsetBytes, offsetBytes }: FieldHeader, found: Field[]): Promise<void> {
    const fields = new MessageFields(this.#cursor, offsetBytes, found);
    const kind = await kindOf(number, fields);
    if (!this.#kinds.has(kind)) this.#kinds.set(kind, tagOffsetBytes);
    if (kind === 'info7' || kind === 'info') {
      this.#addInfo(kind, fields);
    } else {
      const isBranch = kind === 'branch';
      const name = fields.text(isBranch ? BRANCH_TENSOR.name : KEY, 'name');
      this.#cursor.what = `tensor ${quoted(name)}`;
      const { shape, ...rest } = await readTensor(kind, fields);
      this.#count(1 + shape.length + rest.ids.runs.length, name);
      this.#tensors.push({ kind, name, offsetBytes: tagOffsetBytes, shape, ...rest });
    }
  }

  #addInfo(kind: EntryKind, fields: MessageFields): void {
    const name = fields.text(INFO.name, 'name');
    this.#cursor.what = `the info of table ${quoted(name)}`;
    const initializer = fields.text(INFO.initializer, 'initializer');
    const dim = dimension(fields, fields.int64(INFO.dim, 'dim'));
    const dtypeNumber = Number(fields.int64(INFO.dtype, 'type'));
    this.#count(1, name + initializer);
    this.#infos.push({ kind, name, offsetBytes: fields.offsetBytes, dim, initializer, dtypeNumber });
  }

  #count(parts: number, text: string): void {
    this.#partCount += parts;
    this.#textBytes += text.length;
    if (this.#partCount > PARTS_MAX || this.#textBytes > TEXT_BYTES_MAX) {
      const limits = `${PARTS_MAX} tensors, dimensions and runs of ids, and ${TEXT_BYTES_MAX} characters of names`;
      throw this.#cursor.corrupt(this.#cursor.position, `it has more than ${limits}`);
    }
  }
}

async function kindOf(number: number, fields: MessageFields): Promise<EntryKind> {
  if (number === FORMS.S0.Model.param) return kindOfParam(fields);
  if (number === FORMS.S6.Model.embeddingTables) return 'table6';
  if (number === MODEL.denseParameters) {
    return fields.has(VALUE, 'bytes') ? 'dense7' : 'info';
  }
  const value = await fields.message(VALUE, 'value');
  const isTensor = value.has(PROTO.dtype, 'varints') || value.has(PROTO.tensorContent);
  return isTensor ? 'dense6' : 'table7';
}

/**
 * Classifies an entry in field 2 of the model: four kinds of entries have been written there. A
 * tensor has its type in field 5, except in the form that has the name there.
 */
function kindOfParam(fields: MessageFields): EntryKind {
  if (fields.has(BRANCH_TENSOR.name, 'bytes')) return 'branch';
  if (fields.has(LIST_TENSOR.dtype)) return 'list';
  if (!fields.has(VALUE, 'bytes')) return 'info7';
  const hasMore = fields.has(LIST_TENSOR.content) || fields.has(LIST_TENSOR.indices);
  return hasMore ? 'list' : 'map';
}

type TensorContent = Pick<TensorEntry, 'dtypeNumber' | 'shape' | 'content' | 'ids'>;

async function readTensor(kind: EntryKind, fields: MessageFields): Promise<TensorContent> {
  switch (kind) {
    case 'map':
      return ownTensor(await fields.message(VALUE, 'value'), FORMS.S2.Tensor);
    case 'branch':
      return ownTensor(fields, BRANCH_TENSOR);
    case 'list':
      return ownTensor(fields, LIST_TENSOR);
    case 'table6':
    case 'table7': {
      const slices = await fields.message(VALUE, 'value');
      const tensor = await slices.message(SLICES.concatTensors, 'concat_tensors');
      // An empty table may have no tensor at all. That is not the same as a tensor without
      // dimensions.
      const isThere = slices.has(SLICES.concatTensors);
      const values = isThere
        ? await tensorflowTensor(tensor)
        : { dtypeNumber: 0, shape: [0], content: NO_CONTENT };
      return { ...values, ids: slices.ids(SLICES.ids, 'ids') };
    }
    default:
      return { ...(await tensorflowTensor(await fields.message(VALUE, 'value'))), ids: NO_IDS };
  }
}

/** ElasticDL's own tensor message, used until S5. */
function ownTensor(
  fields: MessageFields,
  numbers: Readonly<Record<'dim' | 'content' | 'indices' | 'dtype', number>>,
): TensorContent {
  const dims = fields.int64s(numbers.dim, 'shape', RANK_MAX);
  return {
    dtypeNumber: Number(fields.int64(numbers.dtype, 'type')),
    shape: dims.map((dim) => dimension(fields, dim)),
    content: rangeOf(fields, numbers.content, 'content'),
    ids: fields.ids(numbers.indices, 'ids'),
  };
}

async function tensorflowTensor(fields: MessageFields): Promise<Omit<TensorContent, 'ids'>> {
  for (const [number, name] of VALUE_LISTS) {
    if (fields.has(number)) {
      throw fields.corrupt(
        fields,
        `its values are in ${name}; only tensor_content is read, as ElasticDL writes it`,
      );
    }
  }
  const shape = await fields.message(PROTO.tensorShape, 'shape');
  if (shape.int64(SHAPE.unknownRank, 'unknown_rank') !== 0n) {
    throw fields.corrupt(shape, 'its shape is of unknown rank');
  }
  const dims = await shape.messages(SHAPE.dim, 'dimension');
  if (dims.length > RANK_MAX) throw fields.corrupt(shape, `the shape has more than ${RANK_MAX} numbers`);
  return {
    dtypeNumber: Number(fields.int64(PROTO.dtype, 'type')),
    shape: dims.map((dim) => dimension(dim, dim.int64(DIM.size, 'size'))),
    content: rangeOf(fields, PROTO.tensorContent, 'content'),
  };
}

function rangeOf(fields: MessageFields, number: number, label: string): ByteRange {
  const field = fields.bytes(number, label);
  if (!field) return { offsetBytes: fields.offsetBytes, lengthBytes: 0 };
  return { offsetBytes: field.offsetBytes, lengthBytes: field.lengthBytes };
}

function dimension(fields: MessageFields, value: bigint): number {
  if (value >= 0n && value <= BigInt(Number.MAX_SAFE_INTEGER)) return Number(value);
  throw fields.corrupt(fields, 'a dimension is out of range', '0 to 2^53 - 1', String(value));
}
