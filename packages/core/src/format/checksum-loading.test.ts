import { createRequire } from 'node:module';
import { afterEach, describe, expect, test, vi } from 'vitest';

const realRequire = createRequire(import.meta.url);

afterEach(() => {
  vi.doUnmock('node:module');
  vi.resetModules();
});

/** Loads `checksum.ts` with a `require` that returns what `load` returns. */
async function loadWith(load: (module: string) => unknown): Promise<typeof import('./checksum.ts')> {
  vi.resetModules();
  vi.doMock('node:module', () => ({ createRequire: () => load }));
  return await import('./checksum.ts');
}

function notInstalled(): never {
  throw Object.assign(new Error("Cannot find module '@node-rs/crc32'"), { code: 'MODULE_NOT_FOUND' });
}

describe('the package of npm is in use, with the same values', () => {
  test.each([
    ['the own native module is not there', notInstalled],
    ['the processor cannot run it', () => ({ kernels: {} })],
    ['it computes another CRC', () => ({ crc32c: () => 0 })],
    ['it is wrong only for a seed', () => ({ crc32c: withoutSeed })],
    ['it is wrong only for long input', () => ({ crc32c: wrongFrom(256) })],
  ])('when %s', async (_why, load) => {
    const checksum = await loadWith((name) => (name.endsWith('.node') ? load() : realRequire(name)));
    expect(checksum.crc32cImplementation).toBe('node-rs');
    expectCheckValue(checksum.crc32c);
  });
});

test('the own native module is in use if it computes the right values', async () => {
  const { crc32c } = realRequire('@node-rs/crc32');
  const asked: string[] = [];
  const checksum = await loadWith((name) => {
    asked.push(name);
    return { crc32c };
  });
  expect(checksum.crc32cImplementation).toBe('holdfast');
  expect(asked).toEqual([`./crc32c-${process.platform}-${process.arch}.node`]);
  expectCheckValue(checksum.crc32c);
});

describe('the fall-back is in use, with the same values', () => {
  test.each([
    ['the native module is not there', notInstalled],
    ['it exports something else', () => ({})],
    ['it computes another CRC', () => ({ crc32c: () => 0 })],
    ['it is wrong only for a seed', () => ({ crc32c: withoutSeed })],
  ])('when %s', async (_why, load) => {
    const checksum = await loadWith(load);
    expect(checksum.crc32cImplementation).toBe('fallback');
    expectCheckValue(checksum.crc32c);
  });
});

describe('there is no BLAKE3', () => {
  test.each([
    ['the native module is not there', notInstalled],
    ['it exports something else', () => ({})],
    ['it computes another hash', () => nativeBlake3(() => new Uint8Array(32))],
    ['it forgets what came before', () => nativeBlake3(undefined, Forgetful)],
  ])('when %s', async (_why, load) => {
    const checksum = await loadWith(load);
    expect(checksum.hasBlake3()).toBe(false);
    expect(() => checksum.blake3(new Uint8Array(1))).toThrow('hasBlake3');
    expect(() => checksum.startBlake3()).toThrow('hasBlake3');
  });
});

/** The real module with parts replaced. */
function nativeBlake3(whole?: () => Uint8Array, hasher?: typeof Forgetful) {
  const real = realRequire('@napi-rs/blake-hash');
  return { blake3: whole ?? real.blake3, Blake3Hasher: hasher ?? real.Blake3Hasher };
}

class Forgetful {
  #hash = new Uint8Array(0);

  update(bytes: Uint8Array): void {
    this.#hash = realRequire('@napi-rs/blake-hash').blake3(bytes);
  }

  digestBuffer(): Uint8Array {
    return this.#hash;
  }
}

type Crc32c = (bytes: Uint8Array, seed?: number) => number;

function expectCheckValue(crc32c: Crc32c): void {
  expect(crc32c(new TextEncoder().encode('123456789'))).toBe(0xe3069283);
  expect(crc32c(new TextEncoder().encode('789'), crc32c(new TextEncoder().encode('123456')))).toBe(
    0xe3069283,
  );
}

function wrongFrom(length: number): Crc32c {
  const { crc32c } = realRequire('@node-rs/crc32');
  return (bytes, seed) => (crc32c(bytes, seed) ^ (bytes.length < length ? 0 : 1)) >>> 0;
}

function withoutSeed(bytes: Uint8Array): number {
  let crc = ~0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  }
  return ~crc >>> 0;
}
