import { expect, test } from 'vitest';
import { settingsOf } from './settings.ts';

test('settings: the documented defaults, and what is given', () => {
  const defaults = { connectionsMax: 64, connectTimeoutMs: 10_000, idleTimeoutMs: 30_000, keepAliveMs: 4000 };
  expect(settingsOf({})).toEqual(defaults);
  expect(settingsOf({ connectionsMax: 1, keepAliveMs: undefined })).toEqual({
    ...defaults,
    connectionsMax: 1,
  });
});

test.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 31])('settings: %s is refused', (value) => {
  for (const name of ['connectionsMax', 'connectTimeoutMs', 'idleTimeoutMs', 'keepAliveMs']) {
    expect(() => settingsOf({ [name]: value })).toThrow(RangeError);
  }
});
