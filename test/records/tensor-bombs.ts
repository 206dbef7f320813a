/**
 * Files that describe tensors and are hostile: pickles of PyTorch's DCP, and JSON headers of
 * safetensors. Reads each, and prints a line of JSON for it. `tensor-bombs.test.ts` starts this in
 * a small heap: a reader that needs more memory crashes. With an argument it reads only that bomb.
 */

import { readDistcp } from '@holdfast/core/internal/plan/distcp';
import { PickleProblem } from '@holdfast/core/internal/plan/pickle';
import { parseHeader } from '@holdfast/core/internal/plan/safetensors-header';
import { filesIn, savedTensor } from '@holdfast/core/internal/plan/torch-archive';

const FILE_BYTES = 16 * 1024 * 1024;

/** Repeats text of one byte per character up to the size of the file. */
function filled(unit: string, [start, end] = ['', ''], sizeBytes = FILE_BYTES): Uint8Array {
  const room = sizeBytes - start.length - end.length;
  const middle = Buffer.alloc(room - (room % unit.length), Buffer.from(unit, 'latin1'));
  return Buffer.concat([Buffer.from(start, 'latin1'), middle, Buffer.from(end, 'latin1')]);
}

/** Operations that each make a value, or keep one. */
const OPERATIONS: Readonly<Record<string, string>> = {
  dictionaries: '}',
  lists: ']',
  sets: '\x8f',
  'empty tuples': ')',
  'tuples of one': ')\x85',
  'tuples in tuples': 'N\x85\x85\x85\x85',
  'tuples of three': 'NNN\x87',
  marks: '(',
  'tuples from marks': '(t',
  'lists from marks': '(l',
  'frozen sets': '(\x91',
  numbers: 'K\x01',
  doubles: 'G\x01\x02\x03\x04\x05\x06\x07\x08',
  'long numbers': '\x8a\xff'.padEnd(257, '\x01'),
  'short long numbers': '\x8a\x09\x01\x02\x03\x04\x05\x06\x07\x08\x09',
  texts: '\x8c\x01a',
  'empty texts': '\x8c\x00',
  'wide texts': '\x8c\x06a\xe4\xb8\x96aa',
  bytes: 'C\x01a',
  names: 'ca\nb\n',
  objects: 'NN\x81',
  references: 'NQ',
  'values that are dropped': '}0',
  'values that are remembered': 'N\x94',
  'dictionaries that are remembered': '}\x940',
  frames: '\x95\x01\x02\x03\x04\x05\x06\x07\x08',
};

/** Operations on one value that is made before. */
const GROWING: Readonly<Record<string, [start: string, unit: string]>> = {
  'a list that grows': [']', 'Na'],
  'a list that grows by many': [']', '(NNNNNNNNNNNNNNNNe'],
  'lists of one': ['(', ']Na'],
  'a dictionary that grows': ['}', 'NNs'],
  'a dictionary of lists': ['}', 'N]s'],
  'dictionaries of one': ['(', '}NNs'],
  'dictionaries of dictionaries': ['}', 'N}NNss'],
  'a set that grows': ['\x8f', '(N\x90'],
  'an object with many states': ['NN\x81', '}b'],
  'a value that is recalled': ['}\x94', 'h\x00'],
  'places far away': ['N', 'r\x01\x02\x03\x04'],
};

const size = 'ctorch\nSize\n((t\x85R'.replace('((t\x85', ')\x85');
const dictionaryOf = (pairs: string) => `}(${pairs}u`;
const object = (module: string, state: string) => `c${module}\n)\x81${state}b`;
const text = (value: string) =>
  `X${Buffer.from(new Uint32Array([value.length]).buffer).toString('latin1')}${value}`;
const dcp = (storage: string, state: string) =>
  Buffer.from(
    `\x80\x04${object('t\nMetadata', dictionaryOf(`${text('storage_data')}${storage}${text('state_dict_metadata')}${state}`))}.`,
    'latin1',
  );

/** Metadata in which few values stand for many. */
function sharing(): Record<string, () => Uint8Array> {
  const name = text('n'.repeat(1_000_000));
  const index = object('t\nMetadataIndex', dictionaryOf(`${text('fqn')}h\x00${text('offset')}${size}`));
  const info = object(
    't\n_StorageInfo',
    dictionaryOf(`${text('relative_path')}h\x00${text('offset')}K\x00${text('length')}K\x01`),
  );
  const chunk = object(
    't\nChunkStorageMetadata',
    dictionaryOf(`${text('sizes')}${size}${text('offsets')}${size}`),
  );
  const chunks = `](${chunk}\x94${'h\x01'.repeat(100_000)}e`;
  const properties = object('t\nTensorProperties', '(ctorch\nfloat32\nt');
  const tensor = object(
    't\nTensorStorageMetadata',
    dictionaryOf(`${text('properties')}${properties}${text('size')}${size}${text('chunks')}${chunks}`),
  );
  return {
    'one part many times': () => dcp(`}${name}\x940${index}${info}s`, `}h\x00${tensor}s`),
    'one long name in many places': () => dcp(`}${name}\x940${`${index}${info}s`.repeat(20_000)}`, '}'),
    'a name that is a tree of lists': () =>
      dcp(
        `}${object('t\nMetadataIndex', dictionaryOf(`${text('fqn')})${treeOf(60)}`))}${info.replaceAll('h\x00', text('a'))}s`,
        '}',
      ),
  };
}

/** Each level holds the one below twice. */
function treeOf(depth: number): string {
  let tree = '';
  for (let level = 0; level < depth; level += 1) tree += `\x94h${String.fromCharCode(level)}\x86`;
  return tree;
}

const HEADERS: Readonly<Record<string, [unit: string, start: string, end: string]>> = {
  lists: ['[],', '{"a":[', '0]}'],
  objects: ['{},', '{"a":[', '0]}'],
  numbers: ['1e300,', '{"a":[', '0]}'],
  strings: ['"a",', '{"a":[', '0]}'],
  brackets: ['[', '{"a":', ''],
  braces: ['{"a":', '', ''],
  'a long string': ['a', '{"a":"', '"}'],
  'a long wide string': ['\xe4\xb8\x96', '{"a":"', '"}'],
  'sharding information': [
    '\\u007b\\u007d\\u002c',
    '{"__metadata__":{"DCP_SHARDING_INFO":"{\\"a\\":[',
    '0]}"}}',
  ],
};

function counted(
  unit: (digits: string) => string,
  [start, end]: [string, string],
  sizeBytes = FILE_BYTES,
): Uint8Array {
  const json = Buffer.alloc(sizeBytes);
  let at = json.write(start);
  const room = sizeBytes - end.length - 1;
  for (let number = 0; ; number += 1) {
    const next = `${number === 0 ? '' : ','}${unit(String(number).padStart(7, '0'))}`;
    if (at + next.length > room) break;
    at += json.write(next, at);
  }
  return json.subarray(0, at + json.write(end, at));
}

type Read = (bytes: Uint8Array) => unknown;
function* bombs(): Generator<[name: string, make: () => Uint8Array, read: Read]> {
  for (const [name, unit] of Object.entries(OPERATIONS)) {
    yield [`pickle: ${name}`, () => filled(unit, ['\x80\x02', '.']), readDistcp];
    const kept = `(${unit.repeat(1000)}t`;
    if (!unit.includes('('))
      yield [`pickle: ${name}, kept`, () => filled(kept, ['\x80\x02', '.']), readDistcp];
    yield [`archive: ${name}`, () => filled(unit, ['\x80\x02', '.'], 4096), savedTensor];
  }
  for (const [name, [start, unit]] of Object.entries(GROWING))
    yield [`pickle: ${name}`, () => filled(unit, [start, '.']), readDistcp];
  for (const [name, make] of Object.entries(sharing())) yield [`pickle: ${name}`, make, readDistcp];
  const entry = `PK\x01\x02${'\0'.repeat(42)}`;
  yield ['archive: a directory of empty names', () => filled(entry, ['', ''], 4096), filesIn];
  const header: Read = (bytes) => {
    const found = parseHeader(bytes, 0);
    if (typeof found === 'string') throw new PickleProblem(found);
  };
  for (const [name, [unit, start, end]] of Object.entries(HEADERS))
    yield [`header: ${name}`, () => filled(unit, [start, end]), header];
  const objects = (digits: string) => `{"u${digits}":0}`;
  yield ['header: objects with names of their own', () => counted(objects, ['{"a":[', ']}']), header];
  const half = FILE_BYTES / 2;
  yield ['header: half as many such objects', () => counted(objects, ['{"a":[', ']}'], half), header];
  const tensors = (digits: string) => `"t${digits}":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`;
  yield ['header: tensors', () => counted(tensors, ['{', '}']), header];
  // About as many as are read.
  const [few, fewer] = [1.75 * 1024 * 1024, 1024 * 1024];
  yield ['header: as many tensors as are read', () => counted(tensors, ['{', '}'], few), header];
  yield ['header: as many objects as are parsed', () => counted(objects, ['{"a":[', ']}'], fewer), header];
  const part = (digits: string) => `"t${digits}":0`;
  yield ['header: members', () => counted(part, ['{', '}']), header];
}

for (const [name, make, read] of bombs()) {
  if (process.argv[2] !== undefined && process.argv[2] !== name) continue;
  const bytes = make();
  let problem: string | null = null;
  try {
    read(bytes);
  } catch (error) {
    problem = `${error instanceof PickleProblem ? '' : 'thrown: '}${(error as Error).message}`;
  }
  const line = { name, sizeBytes: bytes.byteLength, problem };
  process.stdout.write(`${JSON.stringify(line)}\n`);
}
