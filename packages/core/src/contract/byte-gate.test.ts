import { expect, test } from 'vitest';
import { ByteGate } from './byte-gate.ts';

/** Calls that hold their bytes until they are ended by name. */
function calls(limitBytes: number) {
  const gate = new ByteGate(limitBytes);
  const running = new Map<string, () => void>();
  const begin = (name: string, bytes: number) =>
    gate.run(bytes, () => new Promise<void>((resolve) => running.set(name, resolve)));
  const end = async (name: string) => {
    running.get(name)?.();
    running.delete(name);
    await new Promise(setImmediate);
    return [...running.keys()];
  };
  return { gate, begin, end, running };
}

test('calls run while their bytes are within the limit, and the others in their order', async () => {
  const { begin, end, running } = calls(10);
  const ended = [begin('a', 4), begin('b', 6), begin('c', 7), begin('d', 1)];
  // The last one has room, and waits for the one before it.
  expect([...running.keys()]).toEqual(['a', 'b']);
  expect(await end('a')).toEqual(['b']);
  expect(await end('b')).toEqual(['c', 'd']);
  await end('c');
  await end('d');
  await Promise.all(ended);
});

test('a call above the limit runs alone', async () => {
  const { begin, end, running } = calls(10);
  const ended = [begin('a', 1), begin('large', 11), begin('b', 1)];
  expect([...running.keys()]).toEqual(['a']);
  expect(await end('a')).toEqual(['large']);
  expect(await end('large')).toEqual(['b']);
  await end('b');
  await Promise.all(ended);
});

test('a call that fails gives its bytes back', async () => {
  const { gate } = calls(10);
  await expect(gate.run(10, () => Promise.reject(new Error('no')))).rejects.toThrow('no');
  expect(await gate.run(10, () => Promise.resolve('yes'))).toBe('yes');
});
