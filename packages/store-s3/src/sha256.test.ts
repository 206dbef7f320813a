import { createHash, createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { Sha256 } from './sha256.ts';

async function digestOf(hash: Sha256, ...texts: string[]): Promise<string> {
  for (const text of texts) hash.update(Buffer.from(text));
  return Buffer.from(await hash.digest()).toString('hex');
}

describe('Sha256', () => {
  it('without a secret is SHA-256, of all that was given', async () => {
    expect(await digestOf(new Sha256(), 'a', 'b')).toBe(createHash('sha256').update('ab').digest('hex'));
    expect(await digestOf(new Sha256())).toBe(createHash('sha256').digest('hex'));
  });

  it('with a secret is HMAC, whether it is text or bytes, the first time and later', async () => {
    const expected = createHmac('sha256', 'key').update('message').digest('hex');
    const bytes = Buffer.from('key');
    const window = new Uint8Array(Buffer.from('-key-')).subarray(1, 4);
    for (const secret of ['key', 'key', bytes, bytes, window, new Uint8Array(bytes).buffer]) {
      expect(await digestOf(new Sha256(secret), 'message')).toBe(expected);
    }
  });

  it('many secrets are kept apart', async () => {
    for (const secret of Array.from({ length: 40 }, (_, index) => `secret ${index % 20}`)) {
      expect(await digestOf(new Sha256(secret), 'x')).toBe(
        createHmac('sha256', secret).update('x').digest('hex'),
      );
    }
  });

  it('reset begins again', async () => {
    const hash = new Sha256('key');
    hash.update(Buffer.from('forgotten'));
    hash.reset();
    expect(await digestOf(hash, 'x')).toBe(createHmac('sha256', 'key').update('x').digest('hex'));
  });
});
