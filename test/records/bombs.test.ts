import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { MESSAGE_OF_KIND, RECORD_BYTES_MAX_OF, type RecordKind } from '@holdfast/core/internal/format/index';
import { MESSAGES } from '@holdfast/wire';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Explosion } from './explode.ts';

/** Memory that a record may take, plus memory that Node and the sources take before. */
const HEAP_MIB = 64 + 10;
const SEMI_SPACE_MIB = 2;
/** The test takes some 25 s on one core, and longer on a busy machine. */
const TIMEOUT_MS = 600_000;

interface Exploded {
  readonly status: number | null;
  readonly stderr: string;
  readonly explosions: readonly Explosion[];
}

async function explode(...args: string[]): Promise<Exploded> {
  const limits = [`--max-old-space-size=${HEAP_MIB}`, `--max-semi-space-size=${SEMI_SPACE_MIB}`];
  const program = fileURLToPath(new URL('explode.ts', import.meta.url));
  const child = spawn(process.execPath, [...limits, '--conditions=holdfast-source', program, ...args]);
  const ended = new Promise<number | null>((resolve) => child.on('close', resolve));
  const [stdout, stderr, status] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  const lines = stdout.split('\n').filter((line) => line !== '');
  return { status, stderr, explosions: lines.map((line) => JSON.parse(line) as Explosion) };
}

describe('I11: records with right checksums that hold as much as they may', () => {
  let status: number | null;
  let stderr: string;
  let explosions: readonly Explosion[];

  beforeAll(async () => {
    ({ status, stderr, explosions } = await explode());
  }, TIMEOUT_MS);

  test('all are read or refused in 64 MiB', () => {
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    const others = explosions.filter(
      ({ problem }) => problem !== null && !/^Corrupt: .*; it must be /.test(problem),
    );
    expect(others).toEqual([]);
  });

  test('none takes more memory outside of the heap either', () => {
    expect(Math.max(...explosions.map(({ grownBytes }) => grownBytes))).toBeLessThan(HEAP_MIB * 2 ** 20);
    expect(explosions.some(({ grownBytes }) => grownBytes > 2 ** 20)).toBe(true);
  });

  test('there are some for every kind of record and for every field that holds many or long values', () => {
    expect(new Set(explosions.map(({ kind }) => kind))).toEqual(new Set(Object.keys(MESSAGE_OF_KIND)));
    const names = explosions.map(({ name }) => name).join('\n');
    for (const [message, fields] of Object.entries(MESSAGES)) {
      for (const { name, repeated, mapKey, type } of fields) {
        if (repeated || mapKey || type === 'string' || type === 'bytes')
          expect(names).toContain(`${message}.${name}`);
      }
    }
  });

  test('some are as large as their kind may be, and some of those are read', () => {
    for (const kind of Object.keys(MESSAGE_OF_KIND) as RecordKind[]) {
      const sizes = explosions.filter((each) => each.kind === kind).map(({ recordBytes }) => recordBytes);
      expect(Math.max(...sizes)).toBeGreaterThan(RECORD_BYTES_MAX_OF[kind] - 100);
    }
    expect(explosions.filter(({ problem }) => problem === null).length).toBeGreaterThan(5);
  });

  test('a parser that makes all values first needs more', async () => {
    const { status: parsed, stderr: last } = await explode('JSON.parse');
    expect(parsed).not.toBe(0);
    expect(last).toContain('heap out of memory');
  });
});
