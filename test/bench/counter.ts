/** Counts the requests and the record bytes that calls of a manager take. */

import { type ObjectStore, systemClock } from '@holdfast/core';
import { ObservedStore, type StoreCall, type StoreOperation } from '@holdfast/core/store';
import { say } from './options.ts';

export interface Counted {
  readonly what: string;
  readonly count: number;
  readonly requests: number;
  /** Requests that S3 counts as writes. The others are reads and pages of listings. */
  readonly writes: number;
  readonly bytes: number;
  readonly ms: number;
}

const WRITES: readonly StoreOperation[] = [
  'create',
  'beginUpload',
  'putPart',
  'complete',
  'abort',
  'deleteMany',
];
const PAYLOAD_KEY = /^version_\d+\/\d+\.\d+\/\d+\.\d+-/;

export class Counter {
  requests = 0;
  writes = 0;
  bytes = 0;

  /**
   * Wraps `store` for a client whose requests are counted. Bytes include everything but payloads.
   */
  connect(store: ObjectStore): ObservedStore {
    const onCall = ({ operation, key, bytes }: StoreCall) => {
      this.requests++;
      if (WRITES.includes(operation)) this.writes++;
      if (!PAYLOAD_KEY.test(key)) this.bytes += bytes;
    };
    return new ObservedStore(store, { clock: systemClock, onCall });
  }

  async count(what: string, count: number, call: () => Promise<unknown>): Promise<Counted> {
    this.requests = 0;
    this.writes = 0;
    this.bytes = 0;
    const startMs = performance.now();
    await call();
    const { requests, writes, bytes } = this;
    const ms = performance.now() - startMs;
    say(`${what} at ${count}: ${requests} requests, ${bytes} bytes, ${Math.round(ms)} ms`);
    return { what, count, requests, writes, bytes, ms };
  }
}
