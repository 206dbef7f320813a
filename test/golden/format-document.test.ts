import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { crc32c } from '@holdfast/core';
import { MESSAGES } from '@holdfast/wire';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  catalogKey,
  encodeRecord,
  type FileRecord,
  fileListKey,
  FORMAT_MAJOR,
  LOGICAL_NAME_BYTES_MAX,
  type Manifest,
  manifestKey,
  payloadKey,
  receiptKey,
  sha256,
} from '@holdfast/core/internal/format/index';
import { fileListRef, receiptRef } from '@holdfast/core/internal/plan/file-lists';
import { GOLDEN_VALUES } from './values.ts';

const DOCUMENT = readFileSync(new URL('../../docs/format.md', import.meta.url), 'utf8');
const PYTHON = spawnSync('python3', ['--version']).status === 0 ? 'python3' : undefined;

/** The text below a heading, up to the next one. */
function section(heading: string): string {
  const from = DOCUMENT.indexOf(`\n${heading}\n`);
  const level = heading.split(' ')[0];
  const next = DOCUMENT.slice(from + 1).search(new RegExp(`\\n#{1,${level?.length}} `));
  return from === -1 ? '' : DOCUMENT.slice(from + 1, next === -1 ? undefined : from + 1 + next);
}

describe('docs/format.md', () => {
  test.each(Object.entries(MESSAGES))('names every field of %s and no other', (message, fields) => {
    const rows = section(`### ${message}`).matchAll(/^\| `(\w+)` *\|[^|]*\|[^|]*\|[^|]*\|$/gm);
    expect(Array.from(rows, ([, name]) => name)).toEqual(fields.map(({ name }) => name));
  });

  test('its sample is the golden claim', () => {
    expect(DOCUMENT).toContain(readFileSync(new URL('v1/claim.json', import.meta.url), 'utf8'));
  });

  test('its numbers are those of the code', () => {
    expect(section('### Format')).toMatch(new RegExp(`^\\| \`major\` *\\| uint32 *\\| 1 to ${FORMAT_MAJOR} *\\|`, 'm'));
    expect(section('## Limits')).toMatch(new RegExp(`^\\| logical name *\\| ${LOGICAL_NAME_BYTES_MAX} bytes`, 'm'));
  });

  test('each invariant is one row that begins with its number', () => {
    const numbers = Array.from(section('## Invariants').matchAll(/^\| (I\d+) *\|/gm), ([, number]) => number);
    expect(numbers).toEqual(Array.from({ length: 12 }, (_, index) => `I${index}`));
  });
});

describe.runIf(PYTHON)('I9: the reader in docs/format.md, in another language', () => {
  const script = /```python\n(.*?)```/s.exec(DOCUMENT)?.[1] ?? '';
  const weights = new TextEncoder().encode('weights');
  let run: string;

  beforeEach(() => {
    run = mkdtempSync(join(tmpdir(), 'holdfast-format-'));
  });
  afterEach(() => {
    rmSync(run, { recursive: true });
  });

  function put(key: string, bytes: Uint8Array): void {
    mkdirSync(dirname(join(run, key)), { recursive: true });
    writeFileSync(join(run, key), bytes, { flag: 'wx' });
  }

  function fileOf(name: string, bytes: Uint8Array): FileRecord {
    const key = payloadKey({ id: { lineage: 1, epoch: 1, version: 7n }, writer: 0, incarnation: 0, nonce: '0a', name });
    const crc = crc32c(bytes);
    const partCrc32c = new Uint8Array(bytes.length === 0 ? 0 : 4);
    if (bytes.length > 0) new DataView(partCrc32c.buffer).setUint32(0, crc);
    const empty = new Uint8Array(0);
    return { name, key, sizeBytes: bytes.length, crc32c: crc, partSizeBytes: bytes.length, partCrc32c, blake3: empty, mode: 0, mtimeMs: 0 };
  }

  const id = { lineage: 1, epoch: 1, version: 7n };
  const nothing = { bases: [], metrics: {}, metadata: {}, suspicions: [] };

  /** The fields of a manifest that repeats its receipt. */
  function repeated(files: readonly FileRecord[]): Pick<Manifest, 'writers' | 'receipts'> {
    const receipt = { receiptKey: 'version_7/1.1/receipts/0.0.json', receiptSha256: sha256(weights) };
    return { writers: [{ writer: 0, incarnation: 0, ...receipt, files, directories: [] }], receipts: [] };
  }

  /**
   * The fields of a manifest that refers to its receipt, which refers to one list for each file. It
   * is the writer's third life.
   */
  function referred(files: readonly FileRecord[]): Pick<Manifest, 'writers' | 'receipts'> {
    const life = { id, writer: 0, incarnation: 2 };
    const fileLists = files.map((file) => {
      const list = encodeRecord('file-list', { ...life, files: [file] });
      put(fileListKey(life, list.sha256), list.bytes);
      return fileListRef([file], list.sha256);
    });
    const receipt = { ...life, worldSize: 1, files: [], fileLists, directories: [], ...nothing };
    const { bytes, sha256: digest } = encodeRecord('receipt', receipt);
    put(receiptKey(id, 0, 2), bytes);
    return { writers: [], receipts: [receiptRef({ receipt, sha256: digest }, 1)] };
  }

  /** Writes version 7 of one writer, committed in entry 2. Returns the key of each object. */
  function writeRun(shares = repeated): { manifest: string; entry: string; payload: string } {
    const files = [fileOf('empty', new Uint8Array(0)), fileOf('model/weights.bin', weights)];
    put(files[0]!.key, new Uint8Array(0));
    put(files[1]!.key, weights);
    const manifest = encodeRecord('manifest', { id, worldSize: 1, ...nothing, ...shares(files) });
    const key = manifestKey(id, manifest.sha256);
    put(key, manifest.bytes);
    const golden = GOLDEN_VALUES['catalog-entry.json']!;
    if (golden.kind !== 'catalog-entry') throw new Error('the golden catalog entry is another record');
    const older = golden.value.state.checkpoints[0]!;
    const latest = { ...older, id, manifestKey: key, manifestSha256: manifest.sha256 };
    const state = { ...golden.value.state, latest: id, checkpoints: [older, latest] };
    put(catalogKey(9), encodeRecord('catalog-entry', golden.value).bytes);
    put(catalogKey(10), encodeRecord('catalog-entry', { ...golden.value, seq: 10, state }).bytes);
    return { manifest: key, entry: catalogKey(10), payload: files[1]!.key };
  }

  function read(): { status: number | null; stdout: string; stderr: string } {
    return spawnSync(PYTHON ?? '', ['-c', script, run], { encoding: 'utf8' });
  }

  function flipBit(key: string, at: number): void {
    const bytes = readFileSync(join(run, key));
    bytes[at] = (bytes[at] ?? 0) ^ 1;
    writeFileSync(join(run, key), bytes);
  }

  test.each([
    ['in the manifest itself', repeated],
    ['in lists to which a receipt refers', referred],
  ])('walks from the newest entry to the payloads, whose records lie %s', (_, shares) => {
    const { payload } = writeRun(shares);
    const { status, stdout, stderr } = read();
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout.split('\n').slice(0, 2)).toEqual([
      `empty ${join(run, fileOf('empty', new Uint8Array(0)).key)}`,
      `model/weights.bin ${join(run, payload)}`,
    ]);
  });

  test.each(['entry', 'manifest'] as const)('finds a flipped bit in the %s', (which) => {
    const key = writeRun()[which];
    flipBit(key, 200);
    const { status, stderr } = read();
    expect(status).toBe(1);
    expect(stderr).toContain(`${join(run, key)} is damaged`);
  });

  test.each(['receipts/', 'files/'])('finds a flipped bit below %s', (folder) => {
    writeRun(referred);
    const [name] = readdirSync(join(run, 'version_7/1.1', folder));
    flipBit(`version_7/1.1/${folder}${name}`, 200);
    expect(read().stderr).toContain(`${name} is damaged`);
  });

  test('finds a manifest that is whole, but not the one of the catalog', () => {
    const { manifest } = writeRun();
    const other = encodeRecord('manifest', {
      id: { lineage: 1, epoch: 1, version: 7n },
      worldSize: 1,
      writers: [],
      bases: [],
      metrics: {},
      metadata: {},
    suspicions: [],
      receipts: [],
    });
    writeFileSync(join(run, manifest), other.bytes);
    expect(read().stderr).toContain('is another one');
  });

  test('finds a payload of another size', () => {
    const { payload } = writeRun();
    writeFileSync(join(run, payload), 'weight');
    expect(read().stderr).toContain('has another size');
  });
});
