/**
 * Writes the missing golden files: `node --conditions=holdfast-source test/golden/make.ts`. It
 * never overwrites an existing one, which represents what some version of Holdfast has written to a
 * user's store.
 */

import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { encodeRecord } from '@holdfast/core/internal/format/index';
import { GOLDEN_VALUES } from './values.ts';

const HERE = new URL('./', import.meta.url);
const CHECKSUM_END = 85;

function read(path: string): Buffer {
  return readFileSync(new URL(path, HERE));
}

function writeNew(path: string, bytes: Uint8Array): void {
  if (existsSync(new URL(path, HERE))) return;
  writeFileSync(new URL(path, HERE), bytes, { flag: 'wx' });
  console.log(`new: ${path}`);
}

/** The record with changed text after its checksum, and a correct checksum for it. */
function resealed(path: string, from: string, to: string): Uint8Array {
  const tail = read(path).subarray(CHECKSUM_END).toString();
  if (!tail.includes(from)) throw new Error(`${path} has no ${from}`);
  const changed = Buffer.from(tail.replace(from, to));
  return Buffer.concat([Buffer.from(`{"checksum":"sha256:${createHash('sha256').update(changed).digest('hex')}"`), changed]);
}

function flipped(path: string, byte: number, bit: number): Uint8Array {
  const bytes = Uint8Array.from(read(path));
  bytes[byte] = (bytes[byte] ?? 0) ^ (1 << bit);
  return bytes;
}

for (const [name, { kind, value }] of Object.entries(GOLDEN_VALUES)) {
  writeNew(`v1/${name}`, encodeRecord(kind, value).bytes);
}

const receipt = 'v1/receipt.json';
const entry = 'v1/catalog-entry.json';
/** The member `files` of a file list, including the comma after it. */
const FILES_OF_LIST = /"files":\[.*\],(?=")/.exec(read('v1/file-list.json').toString())?.[0] ?? '';

const DAMAGED: Readonly<Record<string, () => Uint8Array>> = {
  'empty.json': () => new Uint8Array(0),
  'bit-flip.json': () => flipped(entry, 700, 2),
  'bit-flip-in-checksum.json': () => flipped(receipt, 30, 0),
  'truncated.json': () => read('v1/manifest.json').subarray(0, 600),
  'truncated-in-checksum.json': () => read('v1/claim.json').subarray(0, 50),
  'wrong-checksum.json': () => Buffer.concat([read('v1/claim.json').subarray(0, CHECKSUM_END), read('v1/run.json').subarray(CHECKSUM_END)]),
  'trailing-garbage.json': () => Buffer.concat([read('v1/claim.json'), Buffer.from('\n')]),
  'trailing-garbage-sealed.json': () => resealed('v1/claim.json', '}\n', '}\n{}\n'),
  'wrong-kind.json': () => read('v1/run.json'),
  'newer-major.json': () => resealed(receipt, '"major":1', '"major":2,"minor":4'),
  'int64-out-of-range.json': () => resealed(receipt, '"version":"9007199254740993"', '"version":"9223372036854775808"'),
  'int64-as-number.json': () => resealed(receipt, '"version":"9007199254740993"', '"version":9007199254740993'),
  'unsafe-size.json': () => resealed(receipt, '"sizeBytes":"20000000"', '"sizeBytes":"9007199254740992"'),
  'wrong-type.json': () => resealed(receipt, '"worldSize":2', '"worldSize":"2"'),
  'bad-base64.json': () => resealed(receipt, 'ipE2qmKoq0NG3XlO', 'ipE2qmKoq0NG3XlO='),
  'duplicate-key.json': () => resealed('v1/claim.json', '"pid":4711', '"pid":4711,"pid":4711'),
  'white-space.json': () => resealed('v1/claim.json', '"pid":4711', '"pid": 4711'),
  'keys-out-of-order.json': () => resealed('v1/claim.json', '"nonce":"c0ffee","pid":4711', '"pid":4711,"nonce":"c0ffee"'),
  'unknown-enum.json': () => resealed(entry, '"state":"RETIRING"', '"state":"RESTING"'),
  'missing-id.json': () => resealed('v1/read-lease.json', '"id":{"epoch":3,"lineage":2,"version":"9007199254740993"},', ''),
  'name-leads-out.json': () => resealed(receipt, '"name":"model/weights-0-of-2.bin"', '"name":"../../home/user/.profile"'),
  'grant-of-two-weeks.json': () => resealed('v1/grant.json', '"blockMs":"604800000"', '"blockMs":"1209600000"'),
  'taken-without-consistency.json': () => resealed('v1/receipt-polluted.json', '"consistency":"POLLUTED",', ''),
  'taken-of-negative-version.json': () => resealed('v1/receipt-polluted.json', '"stateVersion":"9223372036854775807"', '"stateVersion":"-1"'),
  'taken-before-time.json': () => resealed('v1/receipt-polluted.json', '"takenAtMs":"1767225600000"', '"takenAtMs":"-1"'),
  'taken-in-minor-0.json': () => resealed('v1/manifest-polluted.json', ',"minor":1', ''),
  'newer-major-3.json': () => resealed(receipt, '"major":1', '"major":3,"minor":1'),
  'file-lists-in-major-1.json': () => resealed('v1/receipt-file-lists.json', '"major":2', '"major":1'),
  'receipts-in-major-1.json': () => resealed('v1/manifest-by-reference.json', '"major":2', '"major":1'),
  'file-list-in-major-1.json': () => resealed('v1/file-list.json', '"major":2', '"major":1'),
  'file-list-of-nothing.json': () => resealed('v1/file-list.json', FILES_OF_LIST, ''),
  'file-list-out-of-order.json': () => resealed('v1/file-list.json', '"name":"model/weights-0-of-2.bin"', '"name":"a"'),
  'file-list-ref-of-nothing.json': () => resealed('v1/receipt-file-lists.json', '"fileCount":"2",', ''),
  'receipt-says-files-twice.json': () => resealed('v1/receipt-file-lists.json', '"id":{', `${FILES_OF_LIST}"id":{`),
  'manifest-says-twice.json': () => resealed('v1/manifest-by-reference.json', '"receipts":', '"metrics":{"loss":1},"receipts":'),
  'receipt-ref-without-digest.json': () =>
    resealed('v1/manifest-by-reference.json', ',"sha256":"47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="', ''),
  'pages-in-major-1.json': () => resealed('v1/catalog-entry-paged.json', '"major":2', '"major":1'),
  'page-ref-of-nothing.json': () => resealed('v1/catalog-entry-paged.json', '"count":2,', ''),
  'page-ref-without-first.json': () =>
    resealed('v1/catalog-entry-paged.json', '"first":{"epoch":2,"lineage":1,"version":"7"},', ''),
  'no-json.json': () => resealed('v1/claim.json', '}\n', '\n'),
};

for (const [name, make] of Object.entries(DAMAGED)) writeNew(`damaged/${name}`, make());
