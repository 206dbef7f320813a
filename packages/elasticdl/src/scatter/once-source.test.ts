import fc from 'fast-check';
import { expect, test } from 'vitest';
import { OnceSource } from './once-source.ts';

const SIZE_BYTES = 200;
const BYTES = Uint8Array.from({ length: SIZE_BYTES }, (_, at) => at);

function countingSource() {
  const reads = new Uint8Array(SIZE_BYTES);
  const source = {
    sizeBytes: SIZE_BYTES,
    async readInto(offsetBytes: number, buffer: Uint8Array) {
      for (let at = offsetBytes; at < offsetBytes + buffer.byteLength; at++) reads[at]!++;
      buffer.set(BYTES.subarray(offsetBytes, offsetBytes + buffer.byteLength));
    },
    assertUnchanged: async () => undefined,
    close: async () => undefined,
  };
  return { source, reads };
}

const ranges = fc.array(fc.tuple(fc.nat(SIZE_BYTES), fc.nat(60)), { maxLength: 12 });

test('any reads give the bytes of the source, and what is kept is read once', async () => {
  await fc.assert(
    fc.asyncProperty(ranges, fc.nat(SIZE_BYTES), async (wanted, keepBytes) => {
      const { source, reads } = countingSource();
      const once = new OnceSource(source, keepBytes);
      for (const [offset, length] of wanted) {
        const buffer = new Uint8Array(Math.min(length, SIZE_BYTES - offset));
        await once.readInto(offset, buffer);
        expect([...buffer]).toEqual([...BYTES.subarray(offset, offset + buffer.byteLength)]);
      }
      if (keepBytes === SIZE_BYTES) expect(Math.max(...reads)).toBeLessThanOrEqual(1);
    }),
  );
});

test('what was kept stays when nothing more is; the rest is read each time', async () => {
  const { source, reads } = countingSource();
  const once = new OnceSource(source, SIZE_BYTES);
  await once.readInto(10, new Uint8Array(10));
  once.keepNoMore();
  await once.readInto(0, new Uint8Array(30));
  await once.readInto(0, new Uint8Array(30));
  expect([reads[9], reads[10], reads[19], reads[20]]).toEqual([2, 1, 1, 2]);
});
