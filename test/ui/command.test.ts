/** `holdfast ui` as the packed command: its page, its agent, its token, and refusals. */

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { Agent, get } from 'node:https';
import { expect, onTestFinished, test } from 'vitest';
import { AgentClient } from '../agent/agent-client.ts';
import { HOLDFAST, holdfast, newPlace, type Place } from '../e2e/holdfast-process.ts';
import { Program } from '../e2e/program.ts';
import { makeCertificates } from '../servers/certificates.ts';
import { describeInBrowser, openPage, total } from './browser.ts';
import { asAttempt, saveAll } from './made-run.ts';

const TOKEN = 'a-token-of-a-file-0123456789';

/** Starts the command until the end of the test. */
async function startUi(...args: readonly string[]) {
  const program = new Program([...HOLDFAST, ...args]);
  onTestFinished(async () => {
    program.kill('SIGKILL');
    await program.ended;
  });
  const [, url = ''] = await program.says(/the page is at {2}(\S+)/);
  return { program, url };
}

async function savedRun(): Promise<Place> {
  const place = await newPlace();
  await asAttempt(place.uri, 'job', (run) => saveAll(run, [{ version: 1 }]));
  return place;
}

describeInBrowser('the packed command', (browser) => {
  test('serves its page from its own files, prints the token once, and ends with Ctrl-C', async () => {
    const { uri } = await savedRun();
    const { program, url } = await startUi('ui', uri);
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/#token=[\w-]{32}$/);
    const { page, complaints } = await openPage(browser(), url);
    await total(page, '1 version');
    expect(complaints).toEqual([]);
    program.kill('SIGINT');
    const { stdout, stderr } = await program.ended;
    const token = url.split('token=')[1] as string;
    expect(stdout.split(token)).toHaveLength(2);
    expect(stderr).not.toContain(token);
  });

  test('a writer that is killed in the middle of its save is shown as missing, with what has arrived', async () => {
    const place = await newPlace();
    mkdirSync(place.path('shard'));
    writeFileSync(place.path('shard/small'), Buffer.alloc(1000));
    const save = ['save', place.path('shard'), place.uri, '--version', '7', '--attempt', 'job'];
    expect((await holdfast([...save, '--writer', '0/2', '--no-wait'])).code).toBe(0);
    // This one has sent one of its files when it is killed.
    writeFileSync(place.path('shard/large'), Buffer.alloc(32 << 20));
    const slow = ['--writer', '1/2', '--limit-rate', '256KiB/s', '--progress', 'json'];
    const dying = new Program([...HOLDFAST, ...save, ...slow]);
    const { url } = await startUi('ui', place.uri);
    const { page } = await openPage(browser(), url);
    const second = page.locator('.writers li', { hasText: 'writer 1' });
    await second.getByText(/missing: (?!.*never joined)/).waitFor();
    dying.kill('SIGKILL');
    await dying.ended;
    await page.getByText('Version 7: 1 of 2 writers delivered').waitFor();
    expect(await page.locator('.writers li', { hasText: 'writer 0' }).textContent()).toContain('delivered');
    expect(await second.textContent()).toContain('missing: ');
    await page.getByText('writers missing').waitFor();
  });

  test('--agent shows the saves of this machine, also those that wait for other writers', async () => {
    const place = await newPlace();
    const socket = place.path('agent.sock');
    writeFileSync(place.path('agent.json'), '{"saveBytesPerSecondMax": 52428800}');
    const stage = ['--stage', place.path('stage'), '--config', place.path('agent.json')];
    const agent = new Program([...HOLDFAST, 'agent', '--socket', socket, ...stage]);
    onTestFinished(async () => {
      agent.kill('SIGKILL');
      await agent.ended;
    });
    await agent.says(/"ready"/);
    const trainer = await new AgentClient(socket).trainer(place.uri, { index: 0, count: 2 });
    await trainer.listen();
    await trainer.begin(7);
    const { url } = await startUi('ui', place.uri, '--agent', socket);
    const { page, complaints } = await openPage(browser(), url);
    await page.getByRole('link', { name: 'Agent' }).click();
    const row = page.locator('#agent-saves tbody tr');
    await row.getByText('delivered', { exact: true }).first().waitFor({ timeout: 20_000 });
    expect(await row.textContent()).toMatch(/0 of 2\d+7delivered.*without writer 1$/);
    expect(await page.locator('#agent').textContent()).toMatch(/version 0\.1\.0.*50\.0 MiB per second/);
    trainer.die();
    agent.kill('SIGKILL');
    await page
      .getByRole('alert')
      .getByText(/no agent answers/)
      .waitFor({ timeout: 20_000 });
    expect(complaints.every((each) => each.includes('503'))).toBe(true);

    const alone = await startUi('ui', '--agent', socket);
    const second = await openPage(browser(), alone.url);
    await second.page
      .getByRole('alert')
      .getByText(/no agent answers/)
      .waitFor();
  });
});

test('another address needs TLS and a token file, and serves with them', async () => {
  const { uri, path } = await savedRun();
  for (const more of [[], ['--token-file', path('token')]]) {
    const { code, stderr } = await holdfast(['ui', uri, '--host', '0.0.0.0', ...more]);
    expect(code).toBe(2);
    expect(stderr).toContain('--host 0.0.0.0 needs --tls and --token-file');
  }
  writeFileSync(path('token'), 'short\n');
  const { certificatePath, keyPath } = await makeCertificates(path('certificates'));
  writeFileSync(path('both.pem'), `${readFileSync(certificatePath, 'utf8')}${readFileSync(keyPath, 'utf8')}`);
  const words = ['ui', uri, '--host', '0.0.0.0', '--token-file', path('token'), '--tls', path('both.pem')];
  const short = await holdfast(words);
  expect(short).toMatchObject({ code: 2, stderr: expect.stringContaining('must have 16 to 256 letters') });
  writeFileSync(path('token'), `${TOKEN}\n`);
  const { url } = await startUi(...words);
  const [, port] = /^https:\/\/0\.0\.0\.0:(\d+)\/#token=/.exec(url) ?? [];
  const status = await new Promise((resolve, reject) => {
    const agent = new Agent({ rejectUnauthorized: false });
    const headers = { authorization: `Bearer ${TOKEN}` };
    get(`https://127.0.0.1:${port}/api/session`, { agent, headers }, (answer) =>
      resolve(answer.statusCode),
    ).on('error', reject);
  });
  expect(status).toBe(200);
});

test.each(['nothing', 's3://bucket/run?secretKey=hidden-hidden'])(
  'the URI %s is refused before anything is served, and not repeated',
  async (uri) => {
    const { code, stdout, stderr } = await holdfast(['ui', uri]);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain('(InvalidConfig, exit 2)');
    expect(stderr).not.toContain('hidden-hidden');
  },
);

test('no URI and no agent, a port that is taken, and a number that no port has', async () => {
  const { uri } = await savedRun();
  expect(await holdfast(['ui'])).toMatchObject({ code: 2, stderr: expect.stringContaining('--agent') });
  const { url } = await startUi('ui', uri);
  const taken = await holdfast(['ui', uri, '--port', new URL(url).port]);
  expect(taken).toMatchObject({ code: 2, stderr: expect.stringContaining('another program uses it') });
  expect((await holdfast(['ui', uri, '--port', '70000'])).code).toBe(2);
});
