/** What the agent refuses, and that the others are served on. */

import { chmodSync, chownSync, existsSync, mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { startAgent } from '@holdfast/agent';
import { isCheckpointError } from '@holdfast/core';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { hex, type Trainer } from './agent-client.ts';
import { newRun, TestAgent } from './agent-run.ts';

const isRoot = process.getuid?.() === 0;
let agent: TestAgent;
let trainer: Trainer;
const run = newRun();

beforeAll(async () => {
  const at = new TestAgent();
  mkdirSync(join(at.directory, 'root'));
  await at.start({ roots: [join(at.directory, 'root')], uris: ['shelf:/'] });
  agent = at;
  trainer = await agent.trainer(run);
});
afterAll(() => agent[Symbol.asyncDispose]());

const inRoot = (name: string) => join(agent.directory, 'root', name);

function plain(path: string, bytes = 'x'): string {
  writeFileSync(path, bytes, { mode: 0o600 });
  return path;
}

describe('sources', () => {
  const MEMORY = { segment: '0123456789abcdef', length: 1 };
  const SOURCES: readonly (readonly [string, string, () => Record<string, unknown>])[] = [
    ['outside the roots', 'Denied', () => ({ path: plain(join(agent.directory, 'secret')) })],
    ['outside, by dots', 'Denied', () => ({ path: `${inRoot('.')}/../secret` })],
    ['another stage, by dots', 'Denied', () => ({ path: `${trainer.stage}/../../secret` })],
    ['outside the roots, and missing', 'Denied', () => ({ path: join(agent.directory, 'none') })],
    ['outside, by dots, and missing', 'Denied', () => ({ path: `${inRoot('.')}/../none` })],
    ['another stage, by dots, and missing', 'Denied', () => ({ path: `${trainer.stage}/../../none` })],
    ['in a directory that is missing', 'NotFound', () => ({ path: inRoot('none/deep/file') })],
    ['below a file', 'NotFound', () => ({ path: `${plain(inRoot('plain'))}/file` })],
    ['a zero byte', 'InvalidArgument', () => ({ path: inRoot('a\0b') })],
    ['missing', 'NotFound', () => ({ path: inRoot('missing') })],
    ['missing in the stage', 'NotFound', () => ({ path: `${trainer.stage}/missing` })],
    ['not absolute', 'InvalidArgument', () => ({ path: 'root/file' })],
    ['a directory', 'InvalidArgument', () => ({ path: trainer.stage.replace(/$/, '/.') })],
    [
      'a link out of the roots',
      'Denied',
      () => {
        symlinkSync('/etc/passwd', inRoot('link-out'));
        return { path: inRoot('link-out') };
      },
    ],
    [
      'a link inside the roots',
      'Denied',
      () => {
        symlinkSync(plain(inRoot('real')), inRoot('link-in'));
        return { path: inRoot('link-in') };
      },
    ],
    [
      'a link in the stage',
      'InvalidArgument',
      () => {
        symlinkSync('/etc/passwd', join(trainer.stage, 'link'));
        return { path: join(trainer.stage, 'link') };
      },
    ],
    [
      'the end before the beginning',
      'InvalidArgument',
      () => ({ ...trainer.staged('a', '123').source, offset: 4 }),
    ],
    ['past the end', 'InvalidArgument', () => ({ ...trainer.staged('a', '123').source, length: 4 })],
    ['a part of a file of a root', 'InvalidArgument', () => ({ path: plain(inRoot('whole')), offset: 1 })],
    ['the standard input of this process', 'Denied', () => ({ ...MEMORY, pid: process.pid, fd: 0 })],
    ['a descriptor of another process', 'Denied', () => ({ ...MEMORY, pid: 1, fd: 0 })],
    ['a descriptor that is not open', 'NotFound', () => ({ ...MEMORY, pid: process.pid, fd: 9999 })],
    [
      'a file that has changed since the trainer looked at it',
      'SourceChanged',
      () => ({ path: plain(inRoot('changed')), state: '3 1 1' }),
    ],
  ];
  test.each(SOURCES)('%s: %s', async (_, code, source) => {
    const { status, body } = await trainer.begin(1, { files: [{ name: 'f', source: source() }] });
    expect(body.code).toBe(code);
    expect(status).toBeGreaterThanOrEqual(400);
    expect(String(body.message)).toMatch(/[a-z]/);
  });

  test.each([
    ['root', () => join(agent.directory, 'root')],
    ['stage', () => trainer.stage],
  ])('a link in the %s does not tell whether what it leads to exists', async (_, place) => {
    const elsewhere = join(agent.directory, 'elsewhere');
    mkdirSync(elsewhere, { recursive: true });
    plain(join(elsewhere, 'there'));
    const answers = [];
    for (const [name, target] of [
      ['l1', elsewhere],
      ['l2', join(elsewhere, 'none')],
    ] as const) {
      symlinkSync(target, join(place(), name));
      for (const below of ['there', 'none', 'deep/none']) {
        const path = join(place(), name, below);
        const { status, body } = await trainer.begin(1, { files: [{ name: 'f', source: { path } }] });
        answers.push([status, body.code, String(body.message).replace(path, 'PATH')]);
      }
    }
    expect(answers[0]?.slice(0, 2)).toEqual([403, 'Denied']);
    expect(new Set(answers.map((answer) => answer.join())).size).toBe(1);
  });

  test.each(['existing', 'missing'])('a link to %s in the root is Denied as a link', async (what) => {
    const path = inRoot(`link-to-${what}`);
    symlinkSync(what === 'existing' ? '/etc/passwd' : '/none', path);
    const { body } = await trainer.begin(1, { files: [{ name: 'f', source: { path } }] });
    expect([body.code, body.message]).toEqual(['Denied', `${path} is a symbolic link`]);
  });

  test('a file of /proc that has no beginning', async () => {
    await using other = await TestAgent.start({ roots: ['/'] });
    const theirs = await other.trainer(newRun());
    const path = `/proc/${process.pid}/mem`;
    const { body } = await theirs.begin(1, { files: [{ name: 'f', source: { path } }] });
    expect([body.code, body.retryable]).toEqual(['InvalidArgument', false]);
    expect(body.message).toContain('only regular files can be saved');
  });

  test.runIf(isRoot)("another user's file", async () => {
    const path = plain(inRoot('foreign'));
    chownSync(path, 12345, 12345);
    const { body } = await trainer.begin(1, { files: [{ name: 'f', source: { path } }] });
    expect([body.code, body.message]).toEqual(['Denied', `${path} belongs to user 12345`]);
  });

  test('a device in a root', async () => {
    await using other = await TestAgent.start({ roots: ['/dev'] });
    const theirs = await other.trainer(newRun());
    const { body } = await theirs.begin(1, { files: [{ name: 'f', source: { path: '/dev/null' } }] });
    expect(['Denied', 'InvalidArgument']).toContain(body.code);
  });

  test('one name twice', async () => {
    const file = trainer.staged('f');
    const { body } = await trainer.begin(1, { files: [file, file] });
    expect([body.code, body.message]).toEqual(['InvalidArgument', 'the save names "f" twice']);
  });

  test('one of several is refused: none is saved, and the id is free', async () => {
    const saveId = hex();
    const files = [trainer.staged('a'), { name: 'b', source: { path: `${trainer.stage}/missing` } }];
    expect((await trainer.begin(41, { saveId, files })).body.code).toBe('NotFound');
    const { body } = await trainer.begin(41, { saveId, files: files.slice(0, 1) });
    expect((await trainer.ended(body.saveId as string)).state).toBe('committed');
  });
});

describe('requests', () => {
  const REQUESTS: readonly (readonly [string, number, Parameters<TestAgent['raw']>[0]])[] = [
    ['an unknown path', 404, { method: 'GET', path: '/v2/writers' }],
    ['another method', 405, { method: 'PUT', path: '/v1/writers' }],
    ['no JSON', 400, { method: 'POST', path: '/v1/writers', body: '{' }],
    ['JSON of another kind', 400, { method: 'POST', path: '/v1/writers', body: '[]' }],
    ['a body of 17 MiB', 413, { method: 'POST', path: '/v1/writers', body: 'x'.repeat(17 * 1024 * 1024) }],
    [
      'a target with a zero byte',
      400,
      {
        method: 'POST',
        path: '/v1/restores',
        body: JSON.stringify({ restoreId: hex(), uri: 'shelf://a', to: '/a\0b' }),
      },
    ],
    ['a query that is not known', 400, { method: 'GET', path: '/v1/latest?uri=shelf://a&limit=3' }],
    ['a query named twice', 400, { method: 'GET', path: '/v1/latest?uri=shelf://a&uri=shelf://b' }],
    ['no query', 400, { method: 'GET', path: '/v1/latest' }],
    ['an offset that is no number', 400, { method: 'GET', path: '/v1/files?uri=shelf://a&name=b&offset=-1' }],
    ['a version that is none', 400, { method: 'GET', path: '/v1/files?uri=shelf://a&name=b&version=1.5' }],
    ['a run that does not exist', 404, { method: 'GET', path: '/v1/latest?uri=shelf://none' }],
    ['versions of a run that does not exist', 404, { method: 'GET', path: '/v1/versions?uri=shelf://none' }],
    ['a version that does not exist', 404, { method: 'GET', path: `/v1/versions/99?uri=shelf://none` }],
    ['an unknown writer', 404, { method: 'GET', path: `/v1/writers/${'0'.repeat(32)}` }],
    ['a restore that is unknown', 404, { method: 'GET', path: `/v1/restores/${'0'.repeat(32)}` }],
    [
      'a run that the configuration does not allow',
      403,
      { method: 'GET', path: '/v1/latest?uri=file:///etc' },
    ],
  ];
  test.each(REQUESTS)('%s: %i', async (_, status, wanted) => {
    const { status: found, bytes } = await agent.raw(wanted);
    expect(found).toBe(status);
    expect(JSON.parse(bytes.toString('utf8'))).toMatchObject({ retryable: false, details: {} });
    expect((await agent.call('health')).status).toBe(200);
  });

  test.each(['metrics', 'metadata'])('%s named __proto__: refused, and not dropped', async (field) => {
    const value = field === 'metrics' ? '1' : '"x"';
    const order = { saveId: hex(), version: 77, files: [trainer.staged('proto')] };
    const body = JSON.stringify(order).replace(/}$/, `,"${field}":{"a":${value},"__proto__":${value}}}`);
    const path = `/v1/writers/${trainer.writerId}/saves`;
    const { status, bytes } = await agent.raw({ method: 'POST', path, body });
    expect([status, JSON.parse(bytes.toString('utf8'))]).toMatchObject([
      400,
      { code: 'InvalidArgument', message: 'the body has the name "__proto__", which is not accepted' },
    ]);
  });

  test('a header of 100 KiB', async () => {
    const headers = { 'x-long': 'x'.repeat(100 * 1024) };
    expect((await agent.raw({ method: 'GET', path: '/healthz', headers })).status).toBe(431);
  });

  test('a header of 100 MB is cut off long before its end', async () => {
    const client = connect(agent.socket);
    client.on('error', () => undefined);
    const closed = new Promise<void>((resolve) => client.once('close', () => resolve()));
    client.write('GET /healthz HTTP/1.1\r\nhost: a\r\nx-long: ');
    let sentBytes = 0;
    for (const piece = Buffer.alloc(64 * 1024, 'x'); !client.destroyed && sentBytes < 100e6; ) {
      const drained = new Promise<void>((resolve) => client.once('drain', () => resolve()));
      client.write(piece);
      sentBytes += piece.byteLength;
      await Promise.race([drained, closed]);
    }
    expect(sentBytes).toBeLessThan(10e6);
    expect((await agent.call('health')).status).toBe(200);
  });

  test('more than 1024 connections: the last are closed, the others are served', async () => {
    await using full = await TestAgent.start();
    const connections: Socket[] = [];
    try {
      while (connections.length < 1100) {
        const each = connect(full.socket);
        // The system refuses one that would wait beside too many others.
        const isOpen = await new Promise<boolean>((resolve) => {
          each.once('connect', () => resolve(true)).on('error', () => resolve(false));
        });
        if (isOpen) connections.push(each);
      }
      const isClosed = ({ readableEnded, destroyed }: Socket) => readableEnded || destroyed;
      for (const each of connections) each.resume();
      await vi.waitFor(() => expect(connections.filter(isClosed)).toHaveLength(1100 - 1024));
      const [first] = connections as [Socket];
      const answered = new Promise((resolve) => first.once('data', (data) => resolve(String(data))));
      first.write('GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n');
      expect(await answered).toMatch(/^HTTP\/1.1 200 /);
    } finally {
      for (const each of connections) each.destroy();
    }
    await vi.waitFor(async () => expect((await full.call('health')).status).toBe(200));
  });

  test.each([
    ['a life that is no id', { life: 'me' }],
    ['an index beyond the number', { index: 2, count: 2 }],
    ['a field that is not known', { rank: 1 }],
    ['an attempt of nothing', { attempt: '' }],
    ['retention that is none', { retention: { keepLast: 0 } }],
    ['no pid', { pid: undefined }],
  ])('join with %s', async (_, more) => {
    const body = { uri: newRun(), attempt: 'a', life: hex(), pid: process.pid, ...more };
    const answer = await agent.call('join', { body });
    expect([answer.status, answer.body.code]).toEqual([
      400,
      expect.stringMatching(/^Invalid(Argument|Config)$/),
    ]);
  });

  test('a client that stops in the middle of its request: the others are served', async () => {
    const half = connect(agent.socket);
    half.write('POST /v1/writers HTTP/1.1\r\nhost: a\r\ncontent-length: 1000\r\n\r\n{"uri":');
    expect((await agent.call('health')).status).toBe(200);
    half.destroy();
    expect((await agent.call('health')).status).toBe(200);
  });

  test('a version that does not rise', async () => {
    const own = await agent.trainer(newRun());
    await own.save(5);
    const { body } = await own.begin(5, { files: [own.staged('model.bin', 'other')] });
    expect(await own.ended(body.saveId as string)).toMatchObject({
      state: 'failed',
      error: { code: 'Conflict' },
    });
  });
});

describe('the token', () => {
  test('every call needs it, and it allows only what the configuration names', async () => {
    await using shared = new TestAgent();
    const token = 'a-token-of-sixteen-or-more';
    writeFileSync(join(shared.directory, 'token'), `${token}\n`);
    const uri = newRun();
    await shared.start({ tokenFile: join(shared.directory, 'token'), runs: { mine: { uri } } });
    for (const authorization of [undefined, 'Bearer wrong', token, `bearer ${token}`, `Bearer ${token}x`]) {
      const refused = await shared.call('status', { headers: authorization ? { authorization } : {} });
      expect([refused.status, refused.body.code]).toEqual([401, 'Denied']);
    }
    const headers = { authorization: `Bearer ${token}` };
    expect((await shared.call('status', { headers })).status).toBe(200);
    const join_ = (run_: string) =>
      shared.call('join', { headers, body: { uri: run_, attempt: 'a', life: hex(), pid: process.pid } });
    expect((await join_('mine')).status).toBe(201);
    expect((await join_(uri)).body.code).toBe('Denied');
    const to = join(shared.directory, 'out');
    const restore = { restoreId: hex(), uri: 'mine', to };
    expect((await shared.call('restore', { headers, body: restore })).body.code).toBe('Denied');
  });

  test.each([
    ['percent signs', '/%2e%2e/other'],
    ['dots', '/../other'],
    ['a dot', '/./run'],
    ['a backslash', '/..\\other'],
    ['an endpoint', '/run?endpoint=http://127.0.0.1:1'],
    ['a fragment', '/run#x'],
    ['a link', '/link/run'],
    ['the beginning of another name', '-other/run'],
  ])('a URI with %s leads nowhere else, and gets no credentials', async (_, rest) => {
    await using shared = new TestAgent();
    const allowed = join(shared.directory, 'team');
    mkdirSync(join(shared.directory, 'secret'));
    mkdirSync(allowed);
    symlinkSync(join(shared.directory, 'secret'), join(allowed, 'link'));
    await shared.start({ uris: [`file://${allowed}`, 'shelf://team'] });
    for (const start of [`file://${allowed}`, 'shelf://team']) {
      if (start.startsWith('shelf') && rest.startsWith('/link')) continue;
      const body = { uri: `${start}${rest}`, attempt: 'a', life: hex(), pid: process.pid };
      const { status, body: refused } = await shared.call('join', { body });
      expect([status, refused.code]).toEqual([403, 'Denied']);
    }
    const body = { uri: `file://${allowed}/run-1`, attempt: 'a', life: hex(), pid: process.pid };
    expect((await shared.call('join', { body })).status).toBe(201);
  });

  test.each([
    ['short', 'short'],
    ['empty', ''],
    ['with spaces inside', 'a token with spaces inside'],
  ])('a token that is %s', async (_, token) => {
    const at = new TestAgent();
    writeFileSync(join(at.directory, 'token'), token);
    await expect(at.start({ tokenFile: join(at.directory, 'token') })).rejects.toMatchObject({
      code: 'InvalidConfig',
    });
    await at[Symbol.asyncDispose]();
  });
});

describe('places', () => {
  const options = { programVersion: '1', env: {}, logger: { log: () => undefined } };
  const start = (socket: string, stage: string) =>
    startAgent({ socket, stage, ...options }).then(
      () => 'started',
      (error: unknown) => (isCheckpointError(error) ? `${error.code}: ${error.message}` : String(error)),
    );

  test('the socket is for this user alone', () => {
    expect(statSync(agent.socket).mode & 0o777).toBe(0o600);
    expect(process.umask()).not.toBe(0o177);
  });

  test('a socket that is served, a file, a directory open to others, a link, a path too long', async () => {
    const stage = join(agent.directory, 'other-stage');
    expect(await start(agent.socket, stage)).toBe(
      `AlreadyExists: ${agent.socket} is served by another agent`,
    );
    const file = plain(join(agent.directory, 'run', 'file'));
    expect(await start(file, stage)).toBe(`AlreadyExists: ${file} exists, and is no socket`);
    const open = join(agent.directory, 'open');
    mkdirSync(open);
    chmodSync(open, 0o755);
    const reason = `Denied: ${open} has mode 0755, so that other users may enter it; make it 0700`;
    expect(await start(join(open, 'a.sock'), stage)).toBe(reason);
    expect(await start(join(agent.directory, 'run', 'b.sock'), open)).toBe(reason);
    symlinkSync(join(agent.directory, 'run'), join(agent.directory, 'linked'));
    expect(await start(join(agent.directory, 'linked', 'b.sock'), stage)).toContain('is a symbolic link');
    expect(await start(join(agent.directory, 'run', 'b'.repeat(120)), stage)).toContain('more than 98 bytes');
  });

  test('a staging directory that another agent uses', async () => {
    const socket = join(agent.directory, 'run', 'second.sock');
    expect(await start(socket, agent.stage)).toBe(`AlreadyExists: ${agent.stage} is served by another agent`);
    expect(existsSync(socket)).toBe(false);
  });

  test('one of several agents that start at the same time gets the socket', async () => {
    const at = new TestAgent();
    await using _ = at;
    const more = Array.from({ length: 5 }, (_each, index) => start(at.socket, `${at.stage}-${index}`));
    const outcomes = await Promise.all([at.start().then(() => 'started', String), ...more]);
    expect(outcomes.filter((outcome) => outcome === 'started')).toHaveLength(1);
    expect((await at.call('health')).status).toBe(200);
  });

  test.runIf(isRoot)('a directory of another user', async () => {
    const foreign = join(agent.directory, 'foreign');
    mkdirSync(foreign, { mode: 0o700 });
    chownSync(foreign, 12345, 12345);
    expect(await start(join(agent.directory, 'run', 'c.sock'), foreign)).toBe(
      `Denied: ${foreign} belongs to user 12345`,
    );
  });

  test('a socket that a killed agent left is taken over', async () => {
    await using at = new TestAgent();
    mkdirSync(join(at.directory, 'run'), { mode: 0o700 });
    const { execFileSync } = await import('node:child_process');
    // A process that ends without closing leaves its socket behind.
    const leave = `require('net').createServer().listen(${JSON.stringify(at.socket)}, () => process.kill(process.pid, 'SIGKILL'))`;
    expect(() => execFileSync(process.execPath, ['-e', leave], { stdio: 'ignore' })).toThrow();
    await at.start();
    expect((await at.call('health')).status).toBe(200);
  });

  test.each([
    ['a field that is not known', { root: ['/'] }, 'root'],
    ['a root that is not absolute', { roots: ['data'] }, 'roots.0'],
    ['a run without a URI', { runs: { a: {} } }, 'runs.a.uri'],
  ])('a configuration with %s', async (_, config, named) => {
    const at = new TestAgent();
    await expect(at.start(config)).rejects.toMatchObject({
      code: 'InvalidConfig',
      message: expect.stringContaining(named),
    });
    await at[Symbol.asyncDispose]();
  });
});
