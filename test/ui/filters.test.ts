/** Every filter and order of the lists of versions and of runs. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { crc32c, createCheckpointManager } from '@holdfast/core';
import { CheckpointError, type ObjectStore, systemClock } from '@holdfast/core/contract';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { openCheckpointManager, registerStore } from '@holdfast/stores';
import { expect, test } from 'vitest';
import { askNow, describeInBrowser, openPage, serve, total } from './browser.ts';
import { asAttempt, makeHistory, newPlace, saveAll } from './made-run.ts';

const STATES = '.runs tbody td:nth-child(2) .badge';

/** The history, with version 400 damaged and out of use. */
async function withDamage(directory: string, uri: string): Promise<void> {
  await makeHistory(uri);
  await using run = await openCheckpointManager(uri);
  const details = await (await run.get(400))?.details();
  const key = details?.files.find(({ name }) => name === 'model.bin')?.key ?? '';
  writeFileSync(join(directory, 'run', key), 'damaged');
  await run.admin.verify({ version: 400, quarantine: true });
}

/**
 * Registers a place with runs in each state. The run `slow` is not answered before `release`, so
 * that a search goes on until then.
 */
async function runsInEachState(scheme: string) {
  const bucket = new MemoryBucket({ crc32c });
  for (const [name, versions] of [
    ['large', [1, 2, 3]],
    ['small', [5]],
    ['forbidden', [1]],
    ['slow', [1]],
  ] as const) {
    const own = new MemoryBucket({ crc32c });
    await using manager = createCheckpointManager({ store: new MemoryStore(own) });
    for (const version of versions) await manager.save({ version, buffers: { a: new Uint8Array(1000) } });
    for (const key of own.keys())
      bucket.insert(`${name}/${key}`, (await new MemoryStore(own).get(key, { maxBytes: 1e6 })).bytes);
  }
  bucket.insert('damaged/catalog/00000000000000000001.json', new Uint8Array(9));
  const released = Promise.withResolvers<void>();
  const open = async (): Promise<ObjectStore> => {
    const store = new MemoryStore(bucket);
    const list = store.list.bind(store);
    store.list = async function* (prefix, options) {
      if (prefix.startsWith('forbidden/')) throw new CheckpointError('Denied', 'not for you');
      if (prefix.startsWith('slow/')) await released.promise;
      yield* list(prefix, options);
    };
    return store;
  };
  registerStore(scheme, { form: `${scheme}://x`, open });
  return { uri: `${scheme}://x`, release: () => released.resolve() };
}

describeInBrowser('filters', (browser) => {
  test('each filter of the versions shows those and no others', async () => {
    const place = newPlace();
    const uri = place.uri('run');
    await withDamage(place.directory, uri);
    const { url } = await serve(browser(), [uri]);
    const { page, complaints } = await openPage(browser(), url);
    await total(page, '11 versions');
    const names = () => page.locator('.spacer a').allTextContents();
    for (const [filter, versions] of [
      ['pinned', ['300']],
      ['verified', ['800']],
      ['left-behind', ['700@1', '600@1']],
      ['retiring', ['700@1', '600@1', '200', '100']],
      ['quarantined', ['400']],
      ['next', ['700@1', '600@1', '200', '100']],
      ['all', ['900', '800', '700', '600', '700@1', '600@1', '500', '400', '300', '200', '100']],
    ] as const) {
      await page.getByLabel('Show').selectOption(filter);
      await total(page, `${versions.length} versions?`);
      expect(await names(), filter).toEqual(versions);
    }
    await page.getByLabel('Find').fill('PAPER');
    await total(page, '1 version');
    expect(await names()).toEqual(['300']);
    await page.getByLabel('Find').fill('loss');
    await total(page, '11 versions');
    expect(complaints).toEqual([]);
  });

  test('runs by state and in each order; a slow one holds up no other, and is not called unreachable', async () => {
    const { uri, release } = await runsInEachState('uistates');
    const { url } = await serve(browser(), [uri]);
    const { page } = await openPage(browser(), url);
    await total(page, '4 runs');
    await page.getByText('The first look goes on. More runs may follow.').waitFor();
    const names = () => page.locator('.runs th[scope=row]').allTextContents();
    expect(await page.locator(STATES, { hasText: 'not reachable' }).count()).toBe(0);
    release();
    await total(page, '5 runs');
    for (const [state, found] of [
      ['denied', ['forbidden']],
      ['damaged', ['damaged']],
      ['ok', ['large', 'slow', 'small']],
    ] as const) {
      await page.getByLabel('State').selectOption(state);
      expect((await names()).sort(), state).toEqual(found);
    }
    await page.getByLabel('State').selectOption('empty');
    await page.getByText('No run matches.').waitFor();
    await page.getByLabel('State').selectOption('ok');
    for (const [order, found] of [
      ['name', ['large', 'slow', 'small']],
      ['stored', ['large', 'slow', 'small']],
      ['age', ['large', 'small', 'slow']],
    ] as const) {
      await page.getByLabel('Order').selectOption(order);
      expect(await names(), order).toEqual(found);
    }
  });

  test('a commit appears in the list of runs when the server looks again', async () => {
    const place = newPlace();
    await asAttempt(place.uri('a'), 'job', (run) => saveAll(run, [{ version: 1 }]));
    let aheadMs = 0;
    const clock = { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + aheadMs };
    const { url } = await serve(browser(), [place.uri('')], { clock });
    const { page } = await openPage(browser(), url);
    await total(page, '1 run');
    await asAttempt(place.uri('a'), 'job', (run) => saveAll(run, [{ version: 2 }]));
    await asAttempt(place.uri('b'), 'job', (run) => saveAll(run, [{ version: 7 }]));
    aheadMs += 31_000;
    await askNow(page); // begins another look
    await expect
      .poll(async () => {
        await askNow(page);
        return (await page.locator('.runs tbody td:nth-child(3)').allTextContents()).map(
          (text) => text.split(',')[0],
        );
      })
      .toEqual(['2', '7']);
  });
});
