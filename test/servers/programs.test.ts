import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Program } from '../e2e/program.ts';
import { describeOnMinio } from './describe-on-s3.ts';
import { FAKE_GCS, MINIO, TOXIPROXY, VERSITYGW } from './go-program.ts';

const RUN_MINIO = 'test/servers/run-minio.ts';
const PREPARE = 'test/servers/prepare.ts';
const VITEST = 'node_modules/vitest/vitest.mjs';
// Reading the client of S3 anew for every process would take most of the time.
const COMPILE_CACHE = 'node_modules/.cache/holdfast-servers';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'holdfast-programs-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

describeOnMinio('run-minio', {}, () => {
  function start(args: readonly string[]): Program {
    return new Program(RUN_MINIO, { args, env: { TMPDIR: directory, NODE_COMPILE_CACHE: COMPILE_CACHE } });
  }

  test('gives a command the URI and the credentials, ends as it does, and takes the server away', async () => {
    const script = `
      const [uri] = process.argv.slice(1);
      const { AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: secret } = process.env;
      const { status } = await fetch(new URL(uri).searchParams.get('endpoint') + '/minio/health/ready');
      console.log(JSON.stringify({ uri, status, hasCredentials: Boolean(id && secret) }));
      process.exitCode = 9;
    `;
    const { exitCode, stdout } = await start([process.execPath, '--input-type=module', '-e', script, '{}'])
      .ended;
    expect(JSON.parse(stdout)).toEqual({
      uri: expect.stringMatching(/^s3:\/\/holdfast-test-\w+\/run\?endpoint=http/),
      status: 200,
      hasCredentials: true,
    });
    expect(exitCode).toBe(9);
    expect(readdirSync(directory)).toEqual([]);
  });

  test('without a command it waits for a signal', async () => {
    const program = start(['--tls']);
    const [, logPath = ''] = await program.says(
      /export HOLDFAST_TEST_S3='s3:.*&ca=.*'\n# process \d+, log (.*);/,
    );
    expect(existsSync(logPath)).toBe(true);
    program.kill('SIGTERM');
    expect((await program.ended).exitCode).toBe(0);
    expect(readdirSync(directory)).toEqual([]);
  });

  test('killed, it takes its server along, and what that has written', async () => {
    const program = start([]);
    const [, pid] = await program.says(/# process (\d+)/);
    expect(process.kill(Number(pid), 0)).toBe(true);
    program.kill('SIGKILL');
    await vi.waitFor(() => expect(() => process.kill(Number(pid), 0)).toThrow('ESRCH'), 10_000);
    await vi.waitFor(() => expect(readdirSync(directory)).toEqual([]), 10_000);
  });

  test('a command that cannot be started is an error', async () => {
    const { exitCode, stderr } = await start([join(directory, 'none')]).ended;
    expect(exitCode).toBe(1);
    expect(stderr).toContain('ENOENT');
    expect(readdirSync(directory)).toEqual([]);
  });
});

describe('where nothing can be built', () => {
  /** Node, and nothing else: no Go. */
  let env: Record<string, string>;
  beforeEach(() => {
    const bin = join(directory, 'bin');
    mkdirSync(bin);
    symlinkSync(process.execPath, join(bin, 'node'));
    env = {
      PATH: bin,
      HOLDFAST_CACHE: join(directory, 'cache'),
      HOLDFAST_TEST_S3: '',
      HOLDFAST_TEST_GCS: '',
      HOLDFAST_TEST_AZURE: '',
      HOLDFAST_REQUIRE: '',
      HOLDFAST_TEST_COUNTS: '', // where the counts of the whole run go
    };
  });

  test('suites are skipped, with a line that says why', async () => {
    const vitest = new Program(VITEST, { args: ['run', 'test/servers/describe-on-s3.test.ts'], env });
    const { stdout, stderr } = await vitest.ended;
    expect(stdout + stderr).toMatch(/SKIPPED: a server for a suite: Go was not found/);
    expect(stdout).toMatch(/0 passed, 0 failed, [1-9]\d* skipped/);
  });

  test('suites that HOLDFAST_REQUIRE names fail, with the reason', async () => {
    const vitest = new Program(VITEST, {
      args: ['run', 'test/servers/describe-on-s3.test.ts'],
      env: { ...env, HOLDFAST_REQUIRE: 'local,s3' },
    });
    const { exitCode, stdout, stderr } = await vitest.ended;
    expect(exitCode).toBe(1);
    expect(stderr).toContain('HOLDFAST_REQUIRE names s3, but Go was not found');
    expect(stdout).toMatch(/0 passed, [1-9]\d* failed/);
  });

  test('the preparation says so, and fails only for what is required', async () => {
    const lax = await new Program(PREPARE, { env }).ended;
    expect(lax.exitCode).toBe(0);
    expect(lax.stderr).toMatch(/MinIO cannot be had, so its tests will be SKIPPED: Go was not found/);
    const strict = await new Program(PREPARE, { env: { ...env, HOLDFAST_REQUIRE: 's3' } }).ended;
    expect(strict.exitCode).toBe(1);
    expect(strict.stderr).toMatch(/MinIO cannot be had, which HOLDFAST_REQUIRE asks for: Go was not found/);
    expect(strict.stderr).toMatch(/fake-gcs-server cannot be had, so its tests will be SKIPPED: Go was not/);
  });

  test('what was built before is good enough', async () => {
    for (const { name, version, binaryName = name } of [MINIO, VERSITYGW, FAKE_GCS, TOXIPROXY]) {
      const binary = join(directory, 'cache', `${name}-${version}`, binaryName);
      mkdirSync(dirname(binary), { recursive: true });
      writeFileSync(binary, '');
    }
    const required = { ...env, HOLDFAST_REQUIRE: 'local,s3,gcs,azure' };
    const { exitCode, stderr } = await new Program(PREPARE, { env: required }).ended;
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
  });
});
