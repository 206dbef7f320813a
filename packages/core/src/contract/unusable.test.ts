import { expect, test } from 'vitest';
import { unusableText } from './unusable.ts';

test('counts each kind once; what was left behind needs another way back, whatever its state', () => {
  const quarantined = { state: 'quarantined', isLeftBehind: false } as const;
  const retired = { state: 'retiring', isLeftBehind: false } as const;
  const left = [{ state: 'live', isLeftBehind: true } as const, { ...retired, isLeftBehind: true }];
  const text = (...kinds: string[]) => `no existing checkpoint can be loaded: ${kinds.join(', ')}`;
  expect(unusableText([quarantined])).toBe(text('1 version quarantined'));
  expect(unusableText([retired, quarantined, ...left, retired])).toBe(
    text('1 version quarantined', '2 versions retired', '2 versions left behind by a rollback'),
  );
});
