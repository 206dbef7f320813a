import { describe, expect, it } from 'vitest';
import { atATime } from './at-a-time.ts';

describe('atATime', () => {
  it('never has more under way than the limit, and answers in the order of the items', async () => {
    let running = 0;
    let most = 0;
    const items = Array.from({ length: 20 }, (_, index) => index);
    const results = await atATime(items, 3, async (item) => {
      most = Math.max(most, ++running);
      for (let turn = 0; turn < item % 4; turn++) await Promise.resolve();
      running--;
      return item * 2;
    });
    expect([most, results]).toEqual([3, items.map((item) => item * 2)]);
  });

  it('fails with the first failure, begins nothing after it, and leaves nothing under way', async () => {
    const log: string[] = [];
    let release: () => void = () => undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const work = atATime(['slow', 'bad', 'never'], 2, async (item) => {
      log.push(item);
      if (item === 'bad') throw new Error('bad');
      await held;
      log.push(`${item} ended`);
    });
    await Promise.resolve();
    release();
    await expect(work).rejects.toThrow('bad');
    expect(log).toEqual(['slow', 'bad', 'slow ended']);
  });

  it('takes an item only when its turn comes, and none after a failure of the items themselves', async () => {
    const taken: number[] = [];
    function* items() {
      for (const item of [1, 2, 3]) {
        taken.push(item);
        yield item;
      }
      throw new Error('no more');
    }
    const seen: number[][] = [];
    const work = atATime(items(), 1, async () => seen.push([...taken]));
    await expect(work).rejects.toThrow('no more');
    expect(seen).toEqual([[1], [1, 2], [1, 2, 3]]);
  });

  it('no work gives no result', async () => {
    expect(await atATime([], 4, () => Promise.reject(new Error('called')))).toEqual([]);
  });
});
