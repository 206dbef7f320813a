/** Several managers with one memory, and streams of parts of a file. */

import { createTransferMemory } from '@holdfast/core';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open, readAll } from './memory-run.ts';

const MIB = 1024 * 1024;

describe('createTransferMemory', () => {
  test('managers that share it take no more than it has, and leave it when they close', async () => {
    const memory = createTransferMemory({ settings: { bufferBytes: 16 * MIB } });
    const managers = [
      open(newBucket(), { memory }),
      open(newBucket(), { memory }),
      open(newBucket(), { memory }),
    ];
    const big = bytes(12 * MIB);
    await Promise.all(managers.map((manager) => manager.save({ version: 1, buffers: { big } })));
    expect(memory.peakBytes).toBeGreaterThan(0);
    expect([memory.totalBytes, memory.freeBytes]).toEqual([16 * MIB, 16 * MIB]);
    for (const manager of managers.slice(1)) await manager.close();
    const [last] = managers;
    await using checkpoint = await last?.get(1);
    const read = await readAll(checkpoint?.openInputStream('big') as ReadableStream<Uint8Array>);
    expect(Buffer.compare(read, big)).toBe(0);
    await last?.close();
    memory.close();
    memory.close();
  });

  test('is used by managers with as small a budget and the default size of parts', async () => {
    const settings = { bufferBytes: 16 * MIB };
    const memory = createTransferMemory({ settings });
    await using manager = open(newBucket(), { memory, settings });
    await manager.save({ version: 1, buffers: { big: bytes(9 * MIB) } });
    expect(memory.peakBytes).toBeGreaterThan(0);
  });

  test('a stream of unknown length is saved through it', async () => {
    const memory = createTransferMemory({ settings: { bufferBytes: 16 * MIB } });
    await using manager = open(newBucket(), { memory });
    const big = bytes(9 * MIB);
    async function* chunks() {
      for (let at = 0; at < big.byteLength; at += 1_000_000) yield big.subarray(at, at + 1_000_000);
    }
    await manager.save({ version: 1, files: { big: chunks() } });
    const buffer = new Uint8Array(big.byteLength);
    await manager.restore({ to: { big: buffer } });
    expect(Buffer.from(buffer).equals(big)).toBe(true);
  });

  test('memory of something else is refused', () => {
    const memory = { close: () => undefined } as never;
    expect(() => open(newBucket(), { memory })).toThrow(/must come from createTransferMemory/);
  });
});

describe('openInputStream of a part', () => {
  const content = bytes(700_000);

  async function opened() {
    const manager = open(newBucket());
    await manager.save({ version: 1, buffers: { a: content, empty: new Uint8Array(0) } });
    const checkpoint = await manager.get(1);
    if (!checkpoint) throw new Error('not committed');
    return { manager, checkpoint };
  }

  test.each([
    [0, 0],
    [0, 1],
    [65_535, 2],
    [65_536, 65_536],
    [100_000, 300_000],
    [699_999, 1],
    [700_000, 0],
    [0, 700_000],
  ])('from byte %i, %i bytes', async (offsetBytes, lengthBytes) => {
    const { manager, checkpoint } = await opened();
    await using _ = manager;
    const part = Buffer.from(content).subarray(offsetBytes, offsetBytes + lengthBytes);
    expect(part.equals(await readAll(checkpoint.openInputStream('a', { offsetBytes, lengthBytes })))).toBe(
      true,
    );
    const memory = new Uint8Array(2 * MIB);
    const found: Buffer[] = [];
    const again = { offsetBytes, lengthBytes, memory: (sizeBytes: number) => memory.subarray(0, sizeBytes) };
    for await (const chunk of checkpoint.openInputStream('a', again)) {
      if (chunk.buffer !== memory.buffer) throw new Error('other memory');
      found.push(Buffer.from(chunk));
    }
    expect(Buffer.concat(found).equals(part)).toBe(true);
  });

  test('an open end, an empty file, and bytes outside', async () => {
    const { manager, checkpoint } = await opened();
    await using _ = manager;
    const tail = await readAll(checkpoint.openInputStream('a', { offsetBytes: 650_000 }));
    expect(Buffer.from(content).subarray(650_000).equals(tail)).toBe(true);
    expect(await readAll(checkpoint.openInputStream('empty', { offsetBytes: 0 }))).toHaveLength(0);
    const outside = checkpoint.openInputStream('a', { offsetBytes: 699_999, lengthBytes: 2 });
    expect(await failure(readAll(outside))).toBe(
      'InvalidArgument: bytes 699999 to 700001 are outside "a", which has 700000 bytes',
    );
    const wrong = checkpoint.openInputStream('a', { memory: () => new Uint8Array(1) });
    expect(await failure(readAll(wrong))).toMatch(
      /^InvalidArgument: memory\(\d+\) must return a Uint8Array of/,
    );
  });
});
