import { readdirSync, readFileSync } from 'node:fs';
import { isCheckpointError } from '@holdfast/core';
import { describe, expect, test } from 'vitest';
import { decodeRecord, encodeRecord, type RecordKind } from '@holdfast/core/internal/format/index';
import { GOLDEN_VALUES } from './values.ts';

const HERE = new URL('./', import.meta.url);

interface Expectation {
  readonly kind: RecordKind;
  readonly code: string;
  readonly message: string;
}

/** For a maintainer who adds a value or a kind of damage. */
const HINT = 'new golden files are written by: node --conditions=holdfast-source test/golden/make.ts';

const DAMAGED = JSON.parse(readFileSync(new URL('damaged/index.json', HERE), 'utf8')) as Record<string, Expectation>;

function records(directory: string): string[] {
  return readdirSync(new URL(directory, HERE)).filter((name) => name !== 'index.json').sort();
}

function read(path: string): Uint8Array {
  return Uint8Array.from(readFileSync(new URL(path, HERE)));
}

describe('v1', () => {
  test('every golden file has its value, and every value its file', () => {
    expect(records('v1/'), HINT).toEqual(Object.keys(GOLDEN_VALUES).sort());
  });

  test('there is one of every kind', () => {
    const kinds = new Set(Object.values(GOLDEN_VALUES).map(({ kind }) => kind));
    expect([...kinds].sort()).toEqual(['catalog-entry', 'catalog-page', 'claim', 'file-list', 'grant', 'manifest', 'read-lease', 'receipt', 'run', 'upload']);
  });

  test.each(Object.entries(GOLDEN_VALUES))('%s is read as the value it was written from, and written again byte for byte', (name, { kind, value }) => {
    const bytes = read(`v1/${name}`);
    const decoded = decodeRecord(kind, bytes, { key: name });
    expect(decoded).toEqual({ ...value, format: { major: 1, minor: 0, ...value.format, kind } });
    expect(encodeRecord(kind, decoded).bytes).toEqual(bytes);
    expect(encodeRecord(kind, value).bytes).toEqual(bytes);
  });
});

describe('I9: damaged', () => {
  test('every damaged file has its entry in the index, and every entry its file', () => {
    expect(records('damaged/'), HINT).toEqual(Object.keys(DAMAGED).sort());
  });

  test.each(Object.entries(DAMAGED))('%s is refused, and the message names the file and what is wrong', (name, { kind, code, message }) => {
    let found: unknown = 'it was accepted';
    try {
      decodeRecord(kind, read(`damaged/${name}`), { key: `some/${name}` });
    } catch (error) {
      found = isCheckpointError(error) ? { code: error.code, message: error.message } : error;
    }
    const wanted = { code, message: expect.stringContaining(message) };
    expect(found).toEqual(wanted);
    expect((found as { message: string }).message).toMatch(new RegExp(`^some/${name} `));
  });
});
