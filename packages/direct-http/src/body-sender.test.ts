import type { Socket } from 'node:net';
import { describe, expect, it, vi } from 'vitest';
import { BodySender } from './body-sender.ts';

const MIB = 1024 * 1024;

/** Sizes of the slices of a body, where each takes as many milliseconds as `tookMs` tells. */
function slicesOf(sizeBytes: number, isEncrypted: boolean, tookMs: (slice: number) => number): number[] {
  let nowMs = 1000;
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  const sizes: number[] = [];
  const pending: (() => void)[] = [];
  const write = (data: Uint8Array | string, done?: unknown) => {
    if (typeof data === 'string' || typeof done !== 'function') return;
    sizes.push(data.byteLength);
    pending.push(() => {
      nowMs += tookMs(sizes.length);
      done();
    });
  };
  const sender = new BodySender({ write } as unknown as Socket, isEncrypted);
  sender.send('HEAD', new Uint8Array(sizeBytes));
  for (let next = pending.shift(); next !== undefined; next = pending.shift()) next();
  expect(sender.isSending).toBe(false);
  expect(sender.slicesSent).toBe(sizes.length);
  vi.restoreAllMocks();
  return sizes;
}

describe('slices of a body', () => {
  it('grow on a fast plain connection, to 2 MiB', () => {
    const sizes = slicesOf(8 * MIB, false, () => 1);
    expect(sizes.map((size) => size / MIB)).toEqual([0.5, 1, 2, 2, 2, 0.5]);
  });

  it('stay small over TLS, and where each takes long', () => {
    expect(new Set(slicesOf(8 * MIB, true, () => 1))).toEqual(new Set([MIB / 2]));
    expect(new Set(slicesOf(8 * MIB, false, () => 100))).toEqual(new Set([MIB / 2]));
  });

  it('shrink again when the connection becomes slow', () => {
    const sizes = slicesOf(6 * MIB, false, (slice) => (slice < 3 ? 1 : 1000));
    expect(sizes.map((size) => size / MIB)).toEqual([0.5, 1, 2, 1, 0.5, 0.5, 0.5]);
  });
});
