import { describe, expect, it } from 'vitest';
import { assertComplete, assertPart, assertPartSize, decodeToken, encodeToken } from './upload-parts.ts';

const SUBJECT = { store: 'zz://p', key: 'a' };
const part = (index: number, sizeBytes: number) => ({ index, sizeBytes, etag: `e${index}` });
const complete = (sizes: readonly number[], sizeBytes: number) =>
  assertComplete(
    SUBJECT,
    10,
    sizes.map((size, index) => part(index, size)),
    { sizeBytes },
  );

describe('what may be asked of an upload', () => {
  it('parts within the limits of the store', () => {
    const limits = { minPartBytes: 5, maxPartBytes: 10 };
    for (const size of [5, 10]) expect(() => assertPartSize(SUBJECT, limits, size)).not.toThrow();
    for (const size of [4, 11, 5.5, Number.NaN])
      expect(() => assertPartSize(SUBJECT, limits, size)).toThrow('a part has from 5 to 10');
  });

  it('a part that is one of it, and no larger than its parts', () => {
    const limits = { partSizeBytes: 10, maxParts: 3 };
    expect(() => assertPart(SUBJECT, limits, 2, 10)).not.toThrow();
    for (const index of [-1, 3, 0.5])
      expect(() => assertPart(SUBJECT, limits, index, 1)).toThrow('parts are numbered 0 to 2');
    expect(() => assertPart(SUBJECT, limits, 0, 11)).toThrow('a part of 11 bytes');
  });

  it('a completion with every part, each of full size but the last, that together are the object', () => {
    expect(() => complete([10, 10, 3], 23)).not.toThrow();
    expect(() => complete([], 0)).not.toThrow();
    expect(() => complete([10, 9, 4], 23)).toThrow('part 1 has 9 bytes, not 10');
    expect(() => complete([10, 10, 3], 24)).toThrow('parts of 23 bytes together; expected 24');
    expect(() => assertComplete(SUBJECT, 10, [part(1, 10)], { sizeBytes: 10 })).toThrow('part 0 is missing');
  });
});

describe('a token', () => {
  it('comes back as it was', () => {
    const token = { key: 'a/ü', uploadId: 'u' };
    expect(decodeToken<typeof token>(SUBJECT, encodeToken(token), ({ key }) => key === 'a/ü')).toEqual(token);
  });

  it.each(['', 'nonsense', encodeToken({ other: 1 }), Buffer.from('null').toString('base64url')])(
    '%j is refused as none of this store',
    (text) => {
      expect(() => decodeToken<{ key: string }>(SUBJECT, text, ({ key }) => typeof key === 'string')).toThrow(
        'not from this store',
      );
    },
  );
});
