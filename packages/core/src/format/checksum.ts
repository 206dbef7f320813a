/**
 * CRC32C, BLAKE3, SHA-256 and MD5: the only file of the engine that computes them from bytes.
 *
 * CRC32C (Castagnoli, polynomial 0x1EDC6F41, reflected, as in RFC 3720) covers payloads: it is
 * computed once per part and combined for the whole. BLAKE3 tells whether two files are identical,
 * for which 32 bits are not enough. SHA-256 covers records.
 */

import { createHash } from 'node:crypto';
import { createRequire } from 'node:module';
import { nativeDirectory } from './native-directory.ts';

/** The polynomial with its bits reflected; bit 31 stands for x^0. */
const POLYNOMIAL = 0x82f63b78;
const SLICES = 8;

/**
 * RFC 3720, appendix B.4, the check value of the CRC catalogue, and bytes so many that each half of
 * them runs through every loop of the native code.
 */
const SELF_TEST: readonly (readonly [bytes: Uint8Array, crc32c: number])[] = [
  [new Uint8Array(0), 0],
  [new TextEncoder().encode('123456789'), 0xe3069283],
  [new Uint8Array(32), 0x8a9136aa],
  [new Uint8Array(32).fill(0xff), 0x62a8ab43],
  [Uint8Array.from({ length: 32 }, (_, index) => index), 0x46dd794e],
  [Uint8Array.from({ length: 1531 }, (_, index) => (index * index) % 251), 0x26be88a3],
];

type Crc32c = (bytes: Uint8Array, seed?: number) => number;

/** `tables[s][b]`: effect on the register of byte `b` followed by `s` zero bytes. */
const tables = makeTables();

function makeTables(): Uint32Array[] {
  const first = new Uint32Array(256);
  for (let byte = 0; byte < 256; byte++) {
    let value = byte;
    for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ POLYNOMIAL : value >>> 1;
    first[byte] = value;
  }
  const all = [first];
  for (let slice = 1; slice < SLICES; slice++) {
    const before = all[slice - 1] as Uint32Array;
    all.push(before.map((value) => (value >>> 8) ^ (first[value & 0xff] as number)));
  }
  return all;
}

/**
 * `crc32c` without native code: slicing by 8, at about a tenth of the native speed. Exported for
 * its tests.
 */
export function crc32cFallback(bytes: Uint8Array, seed = 0): number {
  const [t0, t1, t2, t3, t4, t5, t6, t7] = tables as [
    Uint32Array,
    Uint32Array,
    Uint32Array,
    Uint32Array,
    Uint32Array,
    Uint32Array,
    Uint32Array,
    Uint32Array,
  ];
  let crc = ~seed;
  let at = 0;
  const end = bytes.length - (bytes.length % SLICES);
  for (; at < end; at += SLICES) {
    crc ^=
      (bytes[at] as number) |
      ((bytes[at + 1] as number) << 8) |
      ((bytes[at + 2] as number) << 16) |
      ((bytes[at + 3] as number) << 24);
    crc =
      (t7[crc & 0xff] as number) ^
      (t6[(crc >>> 8) & 0xff] as number) ^
      (t5[(crc >>> 16) & 0xff] as number) ^
      (t4[crc >>> 24] as number) ^
      (t3[bytes[at + 4] as number] as number) ^
      (t2[bytes[at + 5] as number] as number) ^
      (t1[bytes[at + 6] as number] as number) ^
      (t0[bytes[at + 7] as number] as number);
  }
  for (; at < bytes.length; at++) crc = (crc >>> 8) ^ (t0[(crc ^ (bytes[at] as number)) & 0xff] as number);
  return ~crc >>> 0;
}

function passesSelfTest(candidate: Crc32c): boolean {
  return SELF_TEST.every(([bytes, expected]) => {
    const half = bytes.length >> 1;
    const inTwoSteps = candidate(bytes.subarray(half), candidate(bytes.subarray(0, half), 0));
    return candidate(bytes, 0) === expected && inTwoSteps === expected;
  });
}

/**
 * Modules that export `crc32c`, the fastest first: the code of this package for Linux on x64 and
 * arm64, and the package of npm for every other machine.
 */
const NATIVE = {
  holdfast: () => createRequire(nativeDirectory())(`./crc32c-${process.platform}-${process.arch}.node`),
  'node-rs': () => createRequire(import.meta.url)('@node-rs/crc32'),
} as const;

/**
 * `undefined` if the module is not installed for this platform, does not load, or computes wrong
 * values.
 */
function loadNative(load: () => unknown): Crc32c | undefined {
  try {
    // `require` at run time instead of `import`: bundlers ignore it, and a missing binary is no
    // error.
    const { crc32c } = load() as { crc32c: Crc32c };
    return passesSelfTest(crc32c) ? crc32c : undefined;
  } catch {
    // The next one computes the same values; `crc32cImplementation` tells which one is in use.
    return undefined;
  }
}

type Implementation = keyof typeof NATIVE | 'fallback';

function chooseImplementation(): readonly [Implementation, Crc32c] {
  for (const [name, load] of Object.entries(NATIVE)) {
    const native = loadNative(load);
    if (native !== undefined) return [name as keyof typeof NATIVE, (bytes, seed = 0) => native(bytes, seed)];
  }
  return ['fallback', crc32cFallback];
}

const chosen = chooseImplementation();

/**
 * The code that computes CRC32C in this process: `holdfast` is the native code of this package,
 * `node-rs` that of the package `@node-rs/crc32`, at a fifth of its speed, and `fallback` is
 * JavaScript, at a fiftieth. All compute the same values.
 */
export const crc32cImplementation: Implementation = chosen[0];

/** CRC32C as an unsigned 32-bit number. `seed` is the CRC32C of the preceding bytes. */
export const crc32c: (bytes: Uint8Array, seed?: number) => number = chosen[1];

/** BLAKE3 of bytes that arrive in pieces. */
export interface Blake3 {
  update(bytes: Uint8Array): void;
  /** 32 bytes. Call it once, after the last `update`. */
  digest(): Uint8Array;
}

interface NativeBlake3 {
  readonly Blake3Hasher: new () => { update(bytes: Uint8Array): unknown; digestBuffer(): Uint8Array };
  blake3(bytes: Uint8Array): Uint8Array;
}

/**
 * The check values of the reference implementation (test_vectors.json): for no bytes, and for 2,049
 * bytes that repeat 0 to 250.
 */
const BLAKE3_SELF_TEST: readonly (readonly [length: number, hex: string])[] = [
  [0, 'af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262'],
  [2049, '5f4d72f40d7a5f82b15ca2b2e44b1de3c2ef86c426c95c1af0b6879522563030'],
];

function passesBlake3SelfTest({ blake3: whole, Blake3Hasher }: NativeBlake3): boolean {
  return BLAKE3_SELF_TEST.every(([length, expected]) => {
    const bytes = Uint8Array.from({ length }, (_, index) => index % 251);
    const inTwoSteps = new Blake3Hasher();
    inTwoSteps.update(bytes.subarray(0, length >> 1));
    inTwoSteps.update(bytes.subarray(length >> 1));
    return toHex(whole(bytes)) === expected && toHex(inTwoSteps.digestBuffer()) === expected;
  });
}

function loadBlake3(): NativeBlake3 | null {
  try {
    const loaded = createRequire(import.meta.url)('@napi-rs/blake-hash') as NativeBlake3;
    return passesBlake3SelfTest(loaded) ? loaded : null;
  } catch {
    // BLAKE3 is only needed to avoid sending unchanged files again; `hasBlake3` tells whether it is
    // available.
    return null;
  }
}

let loadedBlake3: NativeBlake3 | null | undefined;

/** Loaded at first use, because many commands never hash anything. */
function nativeBlake3(): NativeBlake3 | null {
  if (loadedBlake3 === undefined) loadedBlake3 = loadBlake3();
  return loadedBlake3;
}

/**
 * False if the native module is not installed for this platform, does not load, or computes wrong
 * values. BLAKE3 is not computed then.
 */
export function hasBlake3(): boolean {
  return nativeBlake3() !== null;
}

function requireBlake3(): NativeBlake3 {
  const found = nativeBlake3();
  if (!found) throw new Error('BLAKE3 is not available: check hasBlake3 first');
  return found;
}

/** 32 bytes. */
export function blake3(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(requireBlake3().blake3(bytes));
}

export function startBlake3(): Blake3 {
  const hasher = new (requireBlake3().Blake3Hasher)();
  return {
    update: (bytes) => {
      hasher.update(bytes);
    },
    digest: () => new Uint8Array(hasher.digestBuffer()),
  };
}

/** Hex. Only for comparison with MD5 values computed elsewhere. */
export function md5(bytes: Uint8Array): string {
  return createHash('md5').update(bytes).digest('hex');
}

export function sha256(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(createHash('sha256').update(bytes).digest());
}

/** Lower case. */
export function toHex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex');
}
