/** Changes from the page: only if the command permits them, only as planned, each in the log. */

import { openCheckpointManager } from '@holdfast/stores';
import { expect, test } from 'vitest';
import { describeInBrowser, openPage, serve, total } from './browser.ts';
import { asAttempt, makeHistory, newPlace, saveAll } from './made-run.ts';

const PERMITTED = { programVersion: '1.2.3', mayChange: true };
const HEADERS = { authorization: 'Bearer token-for-tests-0123456789', 'content-type': 'application/json' };

async function newest(uri: string) {
  await using run = await openCheckpointManager(uri);
  const [entry] = await run.admin.log({ limit: 1 });
  return { kind: entry?.kind, reason: entry?.reason };
}

describeInBrowser('changes', (browser) => {
  test('pin, annotate and roll back: the plan first, then the change, with its reason in the log', async () => {
    const uri = newPlace().uri('run');
    await makeHistory(uri);
    const { url } = await serve(browser(), [uri], { session: { ...PERMITTED, uris: [uri] } });
    const { page, complaints } = await openPage(browser(), url);
    await total(page, '11 versions');
    await page.locator('.spacer a', { hasText: /^800$/ }).click();
    const pin = page.getByRole('form', { name: 'Pin' });
    await pin.getByLabel('Reason').fill('for the paper');
    await pin.getByRole('button', { name: 'Plan' }).click();
    await pin.getByText('Pin version 800: no rule retires it').waitFor();
    expect((await newest(uri)).kind).toBe('verify');
    await pin.getByRole('button', { name: 'Carry out' }).click();
    await pin.getByText('Version 800 is pinned.').waitFor();
    expect(await newest(uri)).toEqual({ kind: 'pin', reason: 'for the paper' });
    await page.getByText('pinned: for the paper').waitFor();

    const annotate = page.getByRole('form', { name: 'Annotate' });
    await annotate.getByLabel('Name').fill('quality');
    await annotate.getByLabel('Text').fill('good');
    await annotate.getByLabel('Reason').fill('seen by hand');
    await annotate.getByRole('button', { name: 'Plan' }).click();
    await annotate.getByRole('button', { name: 'Carry out' }).click();
    await page.locator('dd', { hasText: 'good' }).waitFor();
    expect(await newest(uri)).toEqual({
      kind: 'annotate',
      reason: expect.stringContaining('seen by hand'),
    });
    await page.locator('dt', { hasText: 'reason' }).waitFor();

    const rollback = page.getByRole('form', { name: 'Roll back to this version' });
    await rollback.getByLabel('Reason').fill('900 diverged');
    await rollback.getByRole('button', { name: 'Plan' }).click();
    await rollback.getByText('Left behind: 900. They stay').waitFor();
    await rollback.getByRole('button', { name: 'Carry out' }).click();
    await page.locator('.overview .badge', { hasText: 'latest' }).waitFor();
    expect(await newest(uri)).toEqual({ kind: 'rollback', reason: '900 diverged' });
    expect(complaints).toEqual([]);
  });

  test('the rules: what they retire is planned by name, and more than half of the run is refused', async () => {
    const uri = newPlace().uri('run');
    await asAttempt(uri, 'job', (run) =>
      saveAll(
        run,
        [1, 2, 3, 4].map((version) => ({ version })),
      ),
    );
    await using run = await openCheckpointManager(uri);
    await run.admin.setRetention({ keepLast: 1 });
    const { url } = await serve(browser(), [uri], { session: { ...PERMITTED, uris: [uri] } });
    const { page } = await openPage(browser(), url);
    await total(page, '4 versions');
    const form = page.getByRole('form', { name: 'Apply the rules' });
    await form.getByLabel('Reason').fill('the disk is full');
    await form.getByRole('button', { name: 'Plan' }).click();
    await form.getByRole('alert').getByText('the rules drop more than half of the run').waitFor();
    await run.admin.setRetention({ keepLast: 3 });
    await form.getByRole('button', { name: 'Plan' }).click();
    await form.getByText('Retire 1.', { exact: true }).waitFor();
    expect((await newest(uri)).kind).toBe('policy');
    await form.getByRole('button', { name: 'Carry out' }).click();
    await form.getByText('1 retired, 0 removed.').waitFor();
    expect(await newest(uri)).toMatchObject({
      kind: 'retire',
      reason: expect.stringMatching(/^the disk is full \(no rule keeps it: .*\)$/),
    });
    expect((await run.list()).map(({ version, state }) => `${version} ${state}`)).toEqual([
      ...['4 live', '3 live', '2 live', '1 retiring'],
    ]);
  });

  test('a plan of an older state is refused, and so is a change without permission or reason', async () => {
    const uri = newPlace().uri('run');
    await asAttempt(uri, 'job', (run) => saveAll(run, [{ version: 1 }]));
    const permitted = await serve(browser(), [uri], { session: { ...PERMITTED, uris: [uri] } });
    const post = async (port: number, body: unknown, headers: Record<string, string> = HEADERS) => {
      const answer = await fetch(`http://127.0.0.1:${port}/api/change`, {
        method: 'POST',
        headers,
        body: JSON.stringify(body),
      });
      return { status: answer.status, ...((await answer.json()) as { digest?: string; message?: string }) };
    };
    const pin = { uri, action: 'pin', version: '1', lineage: 1, reason: 'why' };
    const { digest } = await post(permitted.port, pin);
    await asAttempt(uri, 'job', (run) => saveAll(run, [{ version: 2 }]));
    expect(await post(permitted.port, { ...pin, confirm: digest })).toMatchObject({
      status: 409,
      message: expect.stringContaining('has changed'),
    });
    expect(await post(permitted.port, { ...pin, reason: ' ' })).toMatchObject({
      status: 400,
      message: 'reason: a text is required',
    });
    expect(await post(permitted.port, { ...pin, action: 'constructor' })).toMatchObject({ status: 400 });
    expect(await post(permitted.port, { ...pin, version: '9' })).toMatchObject({ status: 404 });
    expect(await post(permitted.port, { ...pin, reason: 'x'.repeat(70_000) })).toMatchObject({ status: 400 });
    expect(await post(permitted.port, pin, { ...HEADERS, 'content-type': 'text/plain' })).toMatchObject({
      status: 400,
    });
    expect(await post(permitted.port, pin, { 'content-type': 'application/json' })).toMatchObject({
      status: 401,
    });

    const readOnly = await serve(browser(), [uri]);
    expect(await post(readOnly.port, pin)).toMatchObject({
      status: 403,
      message: 'this page changes nothing: start it with --allow-changes',
    });
    const { page } = await openPage(browser(), readOnly.url);
    await total(page, '2 versions');
    expect(await page.getByRole('button', { name: 'Plan' }).count()).toBe(0);
    expect((await newest(uri)).kind).toBe('commit');
  });
});
