/** The page of one version: its writers, tensors, difference to another, and its commands. */

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { openCheckpointManager } from '@holdfast/stores';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { HOLDFAST, run } from '../e2e/holdfast-process.ts';
import { describeInBrowser, openPage, serve, total } from './browser.ts';
import { newPlace, type Place } from './made-run.ts';

/** A file of safetensors with tensors of these shapes, all of F32. */
function tensors(shapes: Readonly<Record<string, readonly number[]>>): Uint8Array {
  let end = 0;
  const header: Record<string, unknown> = {};
  for (const [name, shape] of Object.entries(shapes)) {
    const begin = end;
    end += 4 * shape.reduce((product, size) => product * size, 1);
    header[name] = { dtype: 'F32', shape, data_offsets: [begin, end] };
  }
  const text = Buffer.from(JSON.stringify(header));
  const head = Buffer.alloc(8);
  head.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([head, text, Buffer.alloc(end, 7)]);
}

/** Two versions by two writers each. Version 1 is verified. */
async function makeVersions(uri: string): Promise<void> {
  for (const version of [1, 2]) {
    const saves = [0, 1].map(async (index) => {
      const writer = { index, count: 2 };
      await using manager = await openCheckpointManager(uri, { attempt: 'job', writer });
      const shape = [16, 8 * version];
      const own = index === 0 ? { 'model.safetensors': tensors({ weight: shape, bias: [16] }) } : {};
      await manager.save({
        version,
        buffers: {
          ...own,
          [`same-${index}`]: new Uint8Array(1024),
          [`only-${version}-${index}`]: new Uint8Array(2048),
        },
      });
    });
    await Promise.all(saves);
  }
  await using manager = await openCheckpointManager(uri);
  await manager.admin.verify({ version: 1 });
}

async function openVersion(page: Page, version: string): Promise<void> {
  await page.locator('.spacer a', { hasText: new RegExp(`^${version}$`) }).click();
  await page.getByRole('heading', { name: `Version ${version}` }).waitFor();
}

/** The cells of each row of the table of this name. */
function rowsOf(page: Page, table: RegExp): Promise<(string | null)[][]> {
  return page
    .getByRole('region', { name: table })
    .locator('tbody tr')
    .evaluateAll((rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent)));
}

function fact(page: Page, name: string) {
  const facts = page.locator('dl.facts > div');
  return facts.filter({ has: page.locator('dt', { hasText: new RegExp(`^${name}$`) }) }).locator('dd');
}

describeInBrowser('the page of a version', (browser) => {
  test('shows files by writer, tensors with type and shape, the difference, and whether it was verified', async () => {
    const uri = newPlace().uri('run');
    await makeVersions(uri);
    const { url } = await serve(browser(), [uri]);
    const { page, complaints } = await openPage(browser(), url);
    await total(page, '2 versions');
    await openVersion(page, '2');
    expect(await fact(page, 'Verified').textContent()).toBe(
      'not since its commit, as far as the catalog says',
    );
    const size = tensors({ weight: [16, 16], bias: [16] }).length;
    expect(await rowsOf(page, /^Table: Writers/)).toEqual([
      ['0', '3', `${((size + 3072) / 1024).toFixed(1)} KiB`, 'not reported', 'not reported'],
      ['1', '2', '3.0 KiB', 'not reported', 'not reported'],
    ]);
    const files = await rowsOf(page, /^Table: Files$/);
    expect(files.map(([name, , writer]) => [name, writer]).sort()).toEqual([
      ['model.safetensors', '0'],
      ['only-2-0', '0'],
      ['only-2-1', '1'],
      ['same-0', '0'],
      ['same-1', '1'],
    ]);

    await page.getByRole('button', { name: 'Read the headers' }).click();
    await page.getByRole('region', { name: /^Table: Tensors/ }).waitFor();
    expect(await rowsOf(page, /^Table: Tensors/)).toEqual([
      ['weight', 'F32', '[16, 16]', '1.0 KiB', 'model.safetensors'],
      ['bias', 'F32', '[16]', '64 B', 'model.safetensors'],
    ]);
    expect(await fact(page, 'Types').textContent()).toBe('F32: 2, 1.1 KiB');

    await page.getByLabel('Compare with').selectOption({ label: '1' });
    await page.getByText('1 changed, 2 added, 2 removed, 2 the same.').waitFor();
    const differing = await rowsOf(page, /^Table: Files that differ/);
    expect(differing.map(([name, change]) => `${name} ${change}`).sort()).toEqual([
      'model.safetensors changed',
      'only-1-0 removed',
      'only-1-1 removed',
      'only-2-0 added',
      'only-2-1 added',
    ]);
    expect(differing.find(([name]) => name === 'model.safetensors')?.[4]).toContain('weight reshaped');
    expect(await page.getByText('are offered').count()).toBe(0);

    await page.goBack();
    await openVersion(page, '1');
    expect(await fact(page, 'Verified').textContent()).toBe('every byte was read and matched');
    await page.locator('.overview .badge', { hasText: 'verified' }).waitFor();
    expect(complaints).toEqual([]);
  });

  test('more versions and files than are shown: the page says so', async () => {
    const uri = newPlace().uri('run');
    await makeVersions(uri);
    const { url } = await serve(browser(), [uri]);
    const { page } = await openPage(browser(), url);
    await total(page, '2 versions');
    // As a long run and a large version would be answered.
    const file = { change: 'changed', beforeBytes: 1, afterBytes: 2, tensors: [], note: '' };
    const diff = {
      ...{ before: { version: '1' }, after: { version: '2' }, bytesRead: 0 },
      counts: { same: 5, changed: 2500, added: 400, removed: 100 },
      files: Array.from({ length: 2000 }, (_, index) => ({ ...file, name: `file-${index}` })),
    };
    await page.route('**/api/version/diff*', (route) => route.fulfill({ json: diff }));
    await page.route('**/api/run/versions*', async (route) => {
      const answer = await (await route.fetch()).json();
      await route.fulfill({ json: { ...answer, total: 5000 } });
    });
    await openVersion(page, '2');
    await page.getByText('Only the newest 2 of 5,000 versions are offered.').waitFor();
    await page.getByLabel('Compare with').selectOption({ label: '1' });
    await page.getByText('The first 2,000 of 3,000 files that differ.').waitFor();
  });

  test('its commands can be copied into a shell, whatever the name of the run', async () => {
    const place: Place = newPlace();
    const uri = place.uri("it's $HOME (a run)");
    await makeVersions(uri);
    const { url } = await serve(browser(), [uri]);
    const { page } = await openPage(browser(), url);
    await total(page, '2 versions');
    await openVersion(page, '1');
    const command = async (label: string) =>
      (await page.getByRole('textbox', { name: label, exact: true }).textContent()) ?? '';
    const inShell = (text: string) => {
      const words = HOLDFAST.map((word) => `'${word}'`).join(' ');
      return run(['sh', '-c', `holdfast() { ${words} "$@"; }; ${text}`], { cwd: place.directory });
    };
    const restored = await inShell(await command('Restore'));
    expect(restored).toMatchObject({ code: 0 });
    expect(readFileSync(join(place.directory, 'restored', 'only-1-1'))).toHaveLength(2048);
    expect(existsSync(join(place.directory, 'restored', 'only-2-1'))).toBe(false);
    expect(await inShell(await command('Verify'))).toMatchObject({ code: 0 });
    expect(await inShell(await command('Pin'))).toMatchObject({ code: 0 });
    expect(await inShell(`${(await command('Annotate')).replace('NAME=VALUE', 'auc=0.5')}`)).toMatchObject({
      code: 0,
    });
    const rollback = (await command('Rollback')).replace('TEXT', 'diverged');
    expect(await inShell(rollback)).toMatchObject({ code: 0 });
    await using manager = await openCheckpointManager(uri);
    const log = await manager.admin.log({ limit: 3 });
    expect(log.map(({ kind }) => kind)).toEqual(['rollback', 'annotate', 'pin']);
    expect(String((await manager.latest())?.version)).toBe('1');
  });
});
