import { createHash, createHmac, createSecretKey, type Hash, type Hmac, type KeyObject } from 'node:crypto';
import type { Checksum, SourceData } from '@smithy/types';

/** Prepared secrets and signing keys of the last days; all dropped at once. */
const KEYS_MAX = 16;

/**
 * SHA-256, or HMAC if given a secret, for the SDK's signer. Keys are prepared once: preparing one
 * costs six times as much as using it, and the signer needs two per request.
 */
export class Sha256 implements Checksum {
  readonly #secret: SourceData | undefined;
  #hash: Hash | Hmac;

  constructor(secret?: SourceData) {
    this.#secret = secret;
    this.#hash = begin(secret);
  }

  update(data: Uint8Array): void {
    this.#hash.update(data);
  }

  digest(): Promise<Uint8Array> {
    return Promise.resolve(this.#hash.digest());
  }

  reset(): void {
    this.#hash = begin(this.#secret);
  }
}

function begin(secret: SourceData | undefined): Hash | Hmac {
  return secret === undefined ? createHash('sha256') : createHmac('sha256', keyOf(secret));
}

const keysOfText = new Map<string, KeyObject>();
const keysOfBytes = new WeakMap<object, KeyObject>();

function keyOf(secret: SourceData): KeyObject {
  const known = typeof secret === 'string' ? keysOfText.get(secret) : keysOfBytes.get(secret);
  if (known !== undefined) return known;
  if (typeof secret === 'string') {
    const key = createSecretKey(secret, 'utf8');
    if (keysOfText.size >= KEYS_MAX) keysOfText.clear();
    keysOfText.set(secret, key);
    return key;
  }
  const key = createSecretKey(
    ArrayBuffer.isView(secret)
      ? new Uint8Array(secret.buffer, secret.byteOffset, secret.byteLength)
      : new Uint8Array(secret),
  );
  keysOfBytes.set(secret, key);
  return key;
}
