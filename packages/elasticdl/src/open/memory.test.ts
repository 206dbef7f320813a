import { expect, test } from 'vitest';
import { shardsInMemory } from './memory.ts';

const bytes = (text: string) => new TextEncoder().encode(text);

test('shards in memory: by index, others passed over, read at any position', async () => {
  const set = shardsInMemory({
    'variables-1-of-2.ckpt': bytes('second'),
    'variables-0-of-2.ckpt': bytes('first'),
    'notes.txt': bytes('no shard'),
  });
  expect([set.where, set.version]).toEqual(['memory', null]);
  expect(set.shards.map(({ name }) => name)).toEqual(['variables-0-of-2.ckpt', 'variables-1-of-2.ckpt']);
  const buffer = new Uint8Array(3);
  await set.shards[1]?.source.readInto(3, buffer);
  await set.shards[1]?.source.assertUnchanged();
  expect(new TextDecoder().decode(buffer)).toBe('ond');
  await set.close();
});

test('a range outside the file is InvalidArgument', async () => {
  const source = shardsInMemory({ 'variables-0-of-1.ckpt': bytes('four') }).shards[0]?.source;
  await source?.readInto(4, new Uint8Array(0));
  for (const offset of [-1, 1, Number.NaN]) {
    await expect(source?.readInto(offset, new Uint8Array(4))).rejects.toMatchObject({
      code: 'InvalidArgument',
    });
  }
});

test('no shard is NotFound, an incomplete checkpoint Corrupt; the message names the place', () => {
  expect(() => shardsInMemory({}, 'the upload')).toThrow(
    expect.objectContaining({
      code: 'NotFound',
      message: expect.stringContaining('the upload holds no shard'),
    }),
  );
  expect(() => shardsInMemory({ 'variables-0-of-3.ckpt': bytes('') })).toThrow(
    expect.objectContaining({ code: 'Corrupt', message: 'memory lacks shard 1, 2 of 3; it has 0' }),
  );
});
