import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { AwakeTimer, afterEvents } from './awake-timer.ts';

const TIMEOUT_MS = 100;
let nowMs: number;
let heardBytes: number;
let endCount: number;

beforeEach(() => {
  [nowMs, heardBytes, endCount] = [0, 0, 0];
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

function start(): AwakeTimer {
  const onEnd = () => {
    endCount += 1;
  };
  return new AwakeTimer({ timeoutMs: TIMEOUT_MS, heardBytes: () => heardBytes, onEnd });
}

/** The timer that is due fires, `lateMs` late. */
function fire(lateMs = 0): void {
  nowMs += TIMEOUT_MS + lateMs;
  vi.advanceTimersByTime(TIMEOUT_MS);
}

const events = () => new Promise<void>((resolve) => afterEvents(resolve));

test('ends once, after the events that had come', async () => {
  start();
  fire(999);
  expect(endCount).toBe(0);
  await events();
  expect(endCount).toBe(1);
  fire();
  await events();
  expect(endCount).toBe(1);
});

test('does not end while something arrives', async () => {
  start();
  fire();
  for (let count = 0; count < 3; count++) {
    heardBytes += 1;
    await events();
    expect(endCount).toBe(0);
  }
  await events();
  expect(endCount).toBe(1);
});

test('starts again if the process was frozen', async () => {
  start();
  fire(1000);
  await events();
  expect(endCount).toBe(0);
  fire();
  await events();
  expect(endCount).toBe(1);
});

test('does not end after it was cancelled, before or after it was due', async () => {
  start().cancel();
  fire();
  const timer = start();
  fire();
  timer.cancel();
  timer.cancel();
  await events();
  expect(endCount).toBe(0);
});
