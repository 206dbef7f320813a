import { mkdir, mkdtemp, open, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DemoFailure, expectSameBytes } from './checks.ts';
import { filesOfWriter, type Model, type Step, WRITER_COUNT } from './model.ts';

const model: Model = { seed: 7, sizeBytes: 256 * 1024 };
const step: Step = { version: 100, attempt: 1 };
const weights = 'layers/05/weights.bin';
let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'holdfast-demo-checks-'));
  for (let writer = 0; writer < WRITER_COUNT; writer++) {
    for (const [name, bytes] of Object.entries(filesOfWriter(writer, model, step))) {
      await mkdir(dirname(join(directory, name)), { recursive: true });
      await writeFile(join(directory, name), bytes);
    }
  }
});

afterEach(() => rm(directory, { recursive: true }));

describe('expectSameBytes', () => {
  it('accepts what the seed gives: 24 tensors and a note', async () => {
    const { fileCount, sizeBytes } = await expectSameBytes(directory, model, step);
    expect(fileCount).toBe(25);
    expect(sizeBytes).toBeGreaterThan(0.99 * model.sizeBytes);
  });

  it('one changed bit is found, with its place', async () => {
    const file = await open(join(directory, weights), 'r+');
    const byte = new Uint8Array(1);
    await file.read(byte, 0, 1, 1234);
    await file.write(Uint8Array.of((byte[0] ?? 0) ^ 1), 0, 1, 1234);
    await file.close();
    const found = expectSameBytes(directory, model, step);
    await expect(found).rejects.toThrow(DemoFailure);
    await expect(found).rejects.toThrow(`${weights} differs at byte 1234`);
  });

  it('a short file, a missing one and one too many are found', async () => {
    await writeFile(join(directory, 'extra.bin'), '');
    await expect(expectSameBytes(directory, model, step)).rejects.toThrow('nobody saved extra.bin');
    await writeFile(join(directory, weights), 'short');
    await expect(expectSameBytes(directory, model, step)).rejects.toThrow(`${weights} has 5 bytes`);
    await rm(join(directory, weights));
    await expect(expectSameBytes(directory, model, step)).rejects.toThrow(`${weights} was not restored`);
  });

  it('another version, another attempt and another seed are other bytes', async () => {
    for (const other of [
      { model, step: { ...step, version: 200 } },
      { model, step: { ...step, attempt: 2 } },
      { model: { ...model, seed: 8 }, step },
    ]) {
      await expect(expectSameBytes(directory, other.model, other.step)).rejects.toThrow('differs at byte');
    }
  });
});

describe('the model', () => {
  it('holds finite float32 values that are hard to compress: nearly all differ', () => {
    const bytes = filesOfWriter(1, model, step)[weights] ?? new Uint8Array();
    const values = new Float32Array(bytes.buffer);
    expect(values.every(Number.isFinite)).toBe(true);
    expect(new Set(values).size).toBeGreaterThan(values.length * 0.9);
  });
});
