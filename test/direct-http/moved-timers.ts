/**
 * Moves the time of the client's connections. Their sockets and the event loop stay real, so a test
 * waits for events and says how much time has passed meanwhile.
 */

import { Socket } from 'node:net';
import { onTestFinished, vi } from 'vitest';
import { turnOfLoop } from './scripted-server.ts';

/** What Node calls when a socket's timer fires, and whenever bytes have moved. */
interface TimedSocket extends Socket {
  timeout?: number;
  _onTimeout(): void;
  _unrefTimer(): void;
}

const prototype = Socket.prototype as TimedSocket;

/** How often Node has reported a timeout. */
let timeoutCount = 0;

/** Until the end of the test, time passes only by `pass` and `fireLate`. */
export function moveTimers(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  const timers = new WeakMap<TimedSocket, NodeJS.Timeout>();
  const realTimeout = prototype.setTimeout;
  const setSocketTimeout = vi.spyOn(prototype, 'setTimeout').mockImplementation(function (
    this: TimedSocket,
    ms: number,
    listener?: () => void,
  ): TimedSocket {
    // Node's own, for the handshake of a server.
    if (listener !== undefined) return realTimeout.call(this, ms, listener) as TimedSocket;
    clearTimeout(timers.get(this));
    this.timeout = ms;
    const fire = () => {
      const count = () => {
        timeoutCount += 1;
      };
      this.once('timeout', count);
      if (!this.destroyed) this._onTimeout();
      this.off('timeout', count);
    };
    if (ms > 0) timers.set(this, setTimeout(fire, ms));
    return this;
  });
  const refresh = vi.spyOn(prototype, '_unrefTimer').mockImplementation(function (this: TimedSocket) {
    timers.get(this)?.refresh();
  });
  onTestFinished(() => {
    setSocketTimeout.mockRestore();
    refresh.mockRestore();
    vi.useRealTimers();
  });
}

/** The loop was free: each timer fires at its time, after all that has arrived was read. */
export async function pass(ms: number): Promise<void> {
  await turnsOfLoop();
  await vi.advanceTimersByTimeAsync(ms);
  await turnsOfLoop();
}

/** The loop was blocked: the next timer fires before the loop looks for what has arrived. */
export function fireLate(): void {
  vi.advanceTimersToNextTimer();
}

/**
 * The same, until Node reports a timeout. It does not when a timer fires for the first time after
 * the system took part of a write.
 */
export function fireUntilTimeout(): void {
  for (const before = timeoutCount; timeoutCount === before; ) fireLate();
}

/** Enough for the kernel to hand over what was sent, and for the client to notice it. */
async function turnsOfLoop(): Promise<void> {
  for (let turn = 0; turn < 6; turn++) await turnOfLoop();
}
