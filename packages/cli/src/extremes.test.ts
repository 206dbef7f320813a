/**
 * Sets every number of a catalog entry to the limits of its type. Either reading rejects it by
 * name, or no command fails because of it.
 */

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '@holdfast/core/contract';
import { decodeRecord } from '@holdfast/core/internal/format/index';
import { type FieldSchema, MESSAGES } from '@holdfast/wire';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runCli } from './run-cli.ts';

type Json = { [name: string]: unknown };

const CHECKSUM_END = 85;
const COMMANDS = [['list'], ['list', '--json'], ['log'], ['gc', '--explain', '--keep', '1']];
const EXTREMES: Readonly<Record<string, readonly unknown[]>> = {
  uint32: [4294967295],
  double: [Number.MAX_VALUE, -Number.MAX_VALUE, 5e-324],
  'int64-number': [String(Number.MAX_SAFE_INTEGER), String(-Number.MAX_SAFE_INTEGER)],
  'int64-bigint': [String(2n ** 63n - 1n), String(-(2n ** 63n))],
};

let directory: string;
let uri: string;
let entryPath: string;
let entry: Json;

async function cli(argv: readonly string[]): Promise<{ code: number; text: string }> {
  let text = '';
  const write = (more: string) => (text += more);
  const code = await runCli(argv, {
    env: {},
    stdout: { write },
    stderr: { write },
    clock: systemClock,
    programVersion: '1.2.3',
    ask: null,
    listenForInterrupt: () => ({
      signal: new AbortController().signal,
      outlastSigterm: () => undefined,
      deliverEarly: () => undefined,
      dispose: () => undefined,
    }),
  });
  return { code, text };
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'holdfast-extremes-'));
  uri = `file://${directory}/run`;
  await writeFile(join(directory, 'a.bin'), 'bytes');
  for (const version of ['1', '2']) {
    const { code, text } = await cli([
      ...['save', join(directory, 'a.bin'), uri, '--version', version],
      ...['--metric', 'loss=1', '--keep-best', 'loss:min:3'],
    ]);
    expect({ code, text }).toMatchObject({ code: 0 });
  }
  const catalog = join(directory, 'run', 'catalog');
  entryPath = join(catalog, readdirSync(catalog).sort().at(-1) as string);
  entry = JSON.parse(`{${readFileSync(entryPath).subarray(CHECKSUM_END + 1)}`) as Json;
  const state = entry['state'] as { checkpoints: Json[] };
  Object.assign(state.checkpoints[0] as Json, {
    ...{ state: 'RETIRING', retiringSeq: '1', retiringAtMs: '1', graceMs: '1' },
    bases: [{ epoch: 1, lineage: 1, version: '1' }],
  });
});

afterAll(() => rm(directory, { recursive: true }));

/** JSON with sorted names; `format` comes first in a record. */
function canonical(json: unknown, isRecord = false): string {
  if (Array.isArray(json)) return `[${json.map((each) => canonical(each)).join(',')}]`;
  if (typeof json !== 'object' || json === null) return JSON.stringify(json);
  const rank = (name: string) => (isRecord && name === 'format' ? '' : name);
  const names = Object.keys(json).sort((a, b) => (rank(a) < rank(b) ? -1 : 1));
  const members = names.map((name) => `${JSON.stringify(name)}:${canonical((json as Json)[name])}`);
  return `{${members.join(',')}}`;
}

function sealed(json: Json): Uint8Array {
  const tail = `,${canonical(json, true).slice(1)}\n`;
  const digest = createHash('sha256').update(tail).digest('hex');
  return Buffer.from(`{"checksum":"sha256:${digest}"${tail}`);
}

interface Change {
  readonly path: string;
  readonly field: string;
  readonly json: Json;
}

/** Yields the entry repeatedly, each time with one number at a limit of its type. */
function* changes(
  message: string,
  value: Json,
  around: (inner: Json) => Json,
  path: string,
): Generator<Change> {
  for (const field of MESSAGES[message] ?? []) {
    const found = value[field.name];
    const name = `${path}${field.name}`;
    const holding = (inner: unknown) => around({ ...value, [field.name]: inner });
    if (field.kind !== 'message') {
      for (const extreme of EXTREMES[field.type] ?? [])
        yield { path: `${name} ${extreme}`, field: field.name, json: holding(shaped(field, extreme)) };
    } else if (field.repeated && Array.isArray(found)) {
      const [first, ...others] = found as Json[];
      if (first) yield* changes(field.type, first, (inner) => holding([inner, ...others]), `${name}[0].`);
    } else if (found !== undefined) yield* changes(field.type, found as Json, holding, `${name}.`);
  }
}

function shaped(field: FieldSchema, scalar: unknown): unknown {
  if (field.mapKey === 'uint32') return { 4294967295: scalar };
  if (field.mapKey !== undefined) return { loss: scalar };
  return field.repeated ? [scalar] : scalar;
}

test('I9: a catalog entry with any number at the end of its type', async () => {
  const own = readFileSync(entryPath);
  let acceptedCount = 0;
  for (const { path, field, json } of changes('CatalogEntry', entry, (inner) => inner, '')) {
    const bytes = sealed(json);
    let problem = '';
    try {
      decodeRecord('catalog-entry', bytes, { key: 'entry' });
    } catch (error) {
      problem = `${(error as { code: string }).code}: ${(error as Error).message}`;
      expect(problem, path).toMatch(/^(Corrupt|UnsupportedFormat): /);
      expect(problem, path).toContain(field === 'major' ? 'format 4294967295' : field);
    }
    if (problem !== '') continue;
    acceptedCount++;
    writeFileSync(entryPath, bytes);
    for (const [command = '', ...options] of COMMANDS) {
      const { text } = await cli([command, uri, ...options]);
      expect(text, `${path}: ${command} ${options}`).not.toMatch(
        /Unexpected|RangeError|TypeError|Invalid time/,
      );
    }
  }
  writeFileSync(entryPath, own);
  expect(acceptedCount).toBeGreaterThan(20);
});
