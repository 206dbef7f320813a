import { createRequire } from 'node:module';
import { hasBlake3 } from '@holdfast/core/internal/format/checksum';
import { vi } from 'vitest';

const CORE = new URL('../../packages/core/package.json', import.meta.url);

/** The native module: the engine has no other BLAKE3. */
const native = createRequire(CORE)('@napi-rs/blake-hash');

/** Counts the bytes that BLAKE3 is given in this process. Ends with the `using` that holds it. */
export function countHashedBytes(): Disposable & { take(): number } {
  // Its self-test hashes too, when it is loaded.
  if (!hasBlake3()) throw new Error('this platform has no BLAKE3');
  const spies = [vi.spyOn(native, 'blake3'), vi.spyOn(native.Blake3Hasher.prototype, 'update')];
  return {
    /** The bytes since the last call. */
    take() {
      const given = spies.flatMap(({ mock }) => mock.calls.map(([bytes]) => bytes as Uint8Array));
      for (const spy of spies) spy.mockClear();
      return given.reduce((sum, { byteLength }) => sum + byteLength, 0);
    },
    [Symbol.dispose]() {
      for (const spy of spies) spy.mockRestore();
    },
  };
}
