/**
 * Finds the form of a file and the numbering of its types. No field says these; they follow from
 * the entries.
 */

import { CheckpointError } from '@holdfast/core/contract';
import { dtypeOfNumber, itemBytes } from '../dtype.ts';
import type { DtypeNumbering, Form } from '../layout.ts';
import type { Dtype } from '../model.ts';
import type { EntryKind, ShardEntries, TensorEntry } from './read-entries.ts';
import { corrupt, quoted } from './read-errors.ts';

/**
 * Entries that can occur in one file. The first Python version of S5 had the fields of S6 and wrote
 * those of S4, so `list` is allowed in S6.
 */
const FAMILIES = {
  map: ['map'],
  branch: ['branch'],
  list: ['list', 'info'],
  S6: ['list', 'info', 'dense6', 'table6'],
  S7: ['info7', 'dense7', 'table7'],
} as const satisfies Record<string, readonly EntryKind[]>;

const SAID: Readonly<Record<EntryKind, string>> = {
  map: 'an entry of a map of tensors (S0 to S2)',
  branch: 'a tensor whose name is field 5 (S2a)',
  list: 'a tensor whose name is field 1 (S3 to S5)',
  info: 'an info of a table (S4 to S6)',
  dense6: 'a dense variable of S6',
  table6: 'a table of S6',
  info7: 'an info of a table of S7',
  dense7: 'a dense variable of S7',
  table7: 'a table of S7',
};

export interface FormFacts {
  readonly form: Form;
  readonly numbering: DtypeNumbering | null;
}

export function formOf(
  entries: ShardEntries,
  file: string,
  numbering: DtypeNumbering | undefined,
): FormFacts {
  const family = familyOf(entries, file);
  const hasChoice = entries.kinds.has('list');
  const listNumbering = hasChoice ? (numbering ?? settledNumbering(entries, file)) : null;
  switch (family) {
    case 'S7':
      return { form: 'S7', numbering: 'tensorflow' };
    case 'map':
      return mapFacts(entries);
    case 'branch':
      return { form: 'S2a', numbering: 'elasticdl' };
    case 'list':
      return listFacts(entries, listNumbering);
    default:
      return { form: 'S6', numbering: listNumbering ?? 'tensorflow' };
  }
}

function familyOf({ kinds }: ShardEntries, file: string): keyof typeof FAMILIES {
  let possible = Object.keys(FAMILIES) as (keyof typeof FAMILIES)[];
  let before: [EntryKind, number] | undefined;
  for (const [kind, offsetBytes] of kinds) {
    const fitting = possible.filter((family) => (FAMILIES[family] as readonly EntryKind[]).includes(kind));
    if (fitting.length === 0 && before) {
      const problem = `two schemas in one file: here is ${SAID[kind]}, and at byte ${before[1]} ${SAID[before[0]]}`;
      throw corrupt({ file, what: null, offsetBytes, problem });
    }
    possible = fitting;
    before = [kind, offsetBytes];
  }
  return possible[0] ?? 'map';
}

function mapFacts({ tensors }: ShardEntries): FormFacts {
  if (tensors.some(({ dtypeNumber }) => dtypeNumber !== 0)) return { form: 'S2', numbering: 'elasticdl' };
  const hasIds = tensors.some(({ ids }) => ids.runs.length > 0);
  return { form: hasIds ? 'S1' : 'S0', numbering: null };
}

function listFacts({ infos }: ShardEntries, numbering: DtypeNumbering | null): FormFacts {
  if (numbering === 'tensorflow') return { form: 'S5', numbering };
  return { form: infos.length > 0 ? 'S4' : 'S3', numbering };
}

/**
 * Decides by the size of elements, since few numbers have the same size in both numberings. `null`:
 * no tensor decides, and nothing depends on it.
 */
function settledNumbering({ tensors }: ShardEntries, file: string): DtypeNumbering | null {
  const settling = new Map<DtypeNumbering, TensorEntry>();
  let open: TensorEntry | undefined;
  for (const tensor of tensors) {
    if (tensor.kind !== 'list') continue;
    const fitting = fittingNumberings(tensor);
    if (fitting.length === 1 && fitting[0] && !settling.has(fitting[0])) settling.set(fitting[0], tensor);
    if (fitting.length > 1 && dtypesOf(tensor).size > 1) open ??= tensor;
  }
  const own = settling.get('elasticdl');
  const other = settling.get('tensorflow');
  if (own && other) {
    const problem = `its type exists only in TensorFlow's numbers, and the type of tensor ${quoted(own.name)} only in ElasticDL's`;
    throw corrupt({ file, what: `tensor ${quoted(other.name)}`, offsetBytes: other.offsetBytes, problem });
  }
  if (open && !own && !other) throw ambiguous(open, file);
  return own ? 'elasticdl' : other ? 'tensorflow' : null;
}

/**
 * Numberings by which shape and content agree. A tensor without elements agrees with each numbering
 * that has its number.
 */
function fittingNumberings(tensor: TensorEntry): DtypeNumbering[] {
  const elements = tensor.shape.reduce((product, dim) => product * dim, 1);
  const numberings: DtypeNumbering[] = ['elasticdl', 'tensorflow'];
  return numberings.filter((numbering) => {
    const dtype = dtypeOfNumber(tensor.dtypeNumber, numbering);
    return dtype !== null && elements * itemBytes(dtype) === tensor.content.lengthBytes;
  });
}

/**
 * Types that the tensor may have; empty if it has no elements, because the type then makes no
 * difference.
 */
function dtypesOf(tensor: TensorEntry): ReadonlySet<Dtype | null> {
  if (tensor.content.lengthBytes === 0) return new Set();
  const { dtypeNumber } = tensor;
  return new Set([dtypeOfNumber(dtypeNumber, 'elasticdl'), dtypeOfNumber(dtypeNumber, 'tensorflow')]);
}

function ambiguous(tensor: TensorEntry, file: string): CheckpointError {
  const { dtypeNumber, name, offsetBytes } = tensor;
  const choices = (['elasticdl', 'tensorflow'] as const)
    .map((numbering) => `numbering: '${numbering}' (${dtypeOfNumber(dtypeNumber, numbering)})`)
    .join(' or ');
  const place = `${file}: tensor ${quoted(name)}, at byte ${offsetBytes}`;
  const message = `${place}: its type ${dtypeNumber} is ambiguous, and the file does not say whose numbers it uses; pass ${choices}`;
  return new CheckpointError('InvalidArgument', message, {
    context: { name: file, what: name, offsetBytes, option: 'numbering' },
  });
}
