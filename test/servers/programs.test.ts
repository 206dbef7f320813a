import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { ARM64_FILE, ARM64_HOME } from '../artifacts/arm64-machine.ts';
import { Program } from '../e2e/program.ts';
import { FRAMEWORKS_HOME } from '../python/frameworks-program.ts';
import { NODE_WHEEL_FILES, NODE_WHEEL_HOME } from '../python/node-wheel.ts';
import { PYTHON_HOME } from '../python/python-program.ts';
import { CHROMIUM_FILE, CHROMIUM_HOME } from '../ui/chromium-program.ts';
import { describeOnAzurite } from './describe-on-azure.ts';
import { describeOnFakeGcs } from './describe-on-gcs.ts';
import { describeOnMinio } from './describe-on-s3.ts';
import { ETCD_FILE, ETCD_HOME } from './etcd-program.ts';
import { FAKE_GCS, MINIO, TOXIPROXY, VERSITYGW } from './go-program.ts';
import { PROMETHEUS_FILE, PROMETHEUS_HOME } from './prometheus-program.ts';

const RUN_SERVER = 'test/servers/run-server.ts';
const PREPARE = 'test/servers/prepare.ts';
const VITEST = 'node_modules/vitest/vitest.mjs';
// Compiling the S3 client again in every process would take most of the time.
const COMPILE_CACHE = 'node_modules/.cache/holdfast-servers';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'holdfast-programs-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

function start(args: readonly string[]): Program {
  return new Program(RUN_SERVER, { args, env: { TMPDIR: directory, NODE_COMPILE_CACHE: COMPILE_CACHE } });
}

/** Prints its arguments, the named variables that are not set, and whether there is a server. */
const COMMAND = `
  const [uri, ...names] = process.argv.slice(1);
  const { searchParams } = new URL(uri);
  const answer = await fetch(searchParams.get('endpoint'));
  const missing = names.filter((name) => !process.env[name]);
  console.log(JSON.stringify({ uri, missing, isServer: answer.status < 500 }));
  process.exitCode = 9;
`;

/**
 * Servers by name, with the `describe` that starts them and the variables that hold credentials.
 */
const KINDS = [
  {
    name: 'minio',
    describeOn: (title: string, body: () => void) => describeOnMinio(title, {}, body),
    uri: /^s3:\/\/holdfast-test-\w+\/run\?endpoint=http/,
    names: ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'],
  },
  {
    name: 'gcs',
    describeOn: (title: string, body: () => void) => describeOnFakeGcs(title, {}, body),
    uri: /^gs:\/\/holdfast-test-\w+\/run\?endpoint=http/,
    names: [],
  },
  {
    name: 'azure',
    describeOn: (title: string, body: () => void) => describeOnAzurite(title, {}, body),
    uri: /^az:\/\/holdfast\w+\/holdfast-test-\w+\/run\?endpoint=http/,
    names: ['AZURE_STORAGE_ACCOUNT', 'AZURE_STORAGE_KEY'],
  },
];

for (const { name, describeOn, uri, names } of KINDS) {
  describeOn(`run-server ${name}`, () => {
    test('gives a command the URI and the credentials, ends as it does, and takes the server away', async () => {
      const command = [process.execPath, '--input-type=module', '-e', COMMAND, '{}', ...names];
      const { exitCode, stdout } = await start([name, ...command]).ended;
      expect(JSON.parse(stdout)).toEqual({ uri: expect.stringMatching(uri), missing: [], isServer: true });
      expect(exitCode).toBe(9);
      expect(readdirSync(directory)).toEqual([]);
    });

    test('killed, it takes its server along, and what that has written', async () => {
      const program = start([name]);
      const [, pid] = await program.says(/export HOLDFAST_TEST_\w+='\w+:.*'\n# process (\d+)/);
      expect(process.kill(Number(pid), 0)).toBe(true);
      program.kill('SIGKILL');
      await vi.waitFor(() => expect(() => process.kill(Number(pid), 0)).toThrow('ESRCH'), 10_000);
      await vi.waitFor(() => expect(readdirSync(directory)).toEqual([]), 10_000);
    });
  });
}

describeOnMinio('run-server', {}, () => {
  test('without a command it waits for a signal', async () => {
    const program = start(['minio', '--tls']);
    const [, logPath = ''] = await program.says(
      /export HOLDFAST_TEST_S3='s3:.*&ca=.*'\n# process \d+, log (.*);/,
    );
    expect(existsSync(logPath)).toBe(true);
    program.kill('SIGTERM');
    expect((await program.ended).exitCode).toBe(0);
    expect(readdirSync(directory)).toEqual([]);
  });

  test('a command that cannot be started is an error', async () => {
    const { exitCode, stderr } = await start(['minio', join(directory, 'none')]).ended;
    expect(exitCode).toBe(1);
    expect(stderr).toContain('ENOENT');
    expect(readdirSync(directory)).toEqual([]);
  });
});

test.each([
  [['ceph'], '"ceph" is no server; it is one of minio, gcs, azure\n'],
  [[], '"" is no server; it is one of minio, gcs, azure\n'],
  [['gcs', '--tls'], '--tls is for minio only\n'],
])('run-server %j is refused', async (args, message) => {
  expect(await start(args).ended).toMatchObject({ exitCode: 1, stdout: '', stderr: message });
});

describe('where nothing can be built', () => {
  /** An environment with Node only: no Go, and no Python of pyenv. */
  let env: Record<string, string>;
  beforeEach(() => {
    const bin = join(directory, 'bin');
    mkdirSync(bin);
    symlinkSync(process.execPath, join(bin, 'node'));
    env = {
      PATH: bin,
      HOLDFAST_CACHE: join(directory, 'cache'),
      PYENV_ROOT: join(directory, 'pyenv'),
      HOLDFAST_TEST_S3: '',
      HOLDFAST_TEST_GCS: '',
      HOLDFAST_TEST_AZURE: '',
      HOLDFAST_REQUIRE: '',
      HOLDFAST_TEST_COUNTS: '', // where the counts of the whole test run go
    };
  });

  test('suites are skipped, with a line that says why', async () => {
    const vitest = new Program(VITEST, { args: ['run', 'test/servers/describe-on-s3.test.ts'], env });
    const { stdout, stderr } = await vitest.ended;
    expect(stdout + stderr).toMatch(/SKIPPED: a server for a suite: Go was not found/);
    expect(stdout).toMatch(/0 passed, 0 failed, [1-9]\d* skipped/);
  });

  test('suites that HOLDFAST_REQUIRE names fail, with the reason', async () => {
    const suites = ['s3', 'gcs'];
    const vitest = new Program(VITEST, {
      args: ['run', ...suites.map((suite) => `test/servers/describe-on-${suite}.test.ts`)],
      env: { ...env, HOLDFAST_REQUIRE: ['local', ...suites].join(',') },
    });
    const { exitCode, stdout, stderr } = await vitest.ended;
    expect(exitCode).toBe(1);
    for (const suite of suites)
      expect(stderr).toContain(`HOLDFAST_REQUIRE names ${suite}, but Go was not found`);
    expect(stdout).toMatch(/0 passed, [1-9]\d* failed/);
  });

  test('the preparation says so, and fails only for what is required', async () => {
    const lax = await new Program(PREPARE, { env }).ended;
    expect(lax.exitCode).toBe(0);
    expect(lax.stderr).toMatch(/MinIO cannot be had, so its tests will be SKIPPED: Go was not found/);
    expect(lax.stderr).toMatch(
      /PyTorch and trainers cannot be had, so its tests will be SKIPPED: .* takes 6 GB/,
    );
    const strict = await new Program(PREPARE, { env: { ...env, HOLDFAST_REQUIRE: 's3,frameworks' } }).ended;
    expect(strict.exitCode).toBe(1);
    expect(strict.stderr).toMatch(/MinIO cannot be had, which HOLDFAST_REQUIRE asks for: Go was not found/);
    expect(strict.stderr).toMatch(/fake-gcs-server cannot be had, so its tests will be SKIPPED: Go was not/);
    expect(strict.stderr).toMatch(
      /Python with protobuf.* cannot be had, so its tests will be SKIPPED: Python 3\.9 or/,
    );
    expect(strict.stderr).toMatch(
      /PyTorch and trainers cannot be had, which HOLDFAST_REQUIRE asks for: Python 3\.12 was not found; install it/,
    );
    expect(strict.stderr).toMatch(
      /etcd cannot be had, so its tests will be SKIPPED: etcd is not on the PATH, and .*install etcd-server/,
    );
    expect(strict.stderr).toMatch(
      /QEMU with .* cannot be had, so its tests will be SKIPPED: this distribution does not give qemu-user-/,
    );
  });

  test('an etcd on the PATH is good enough', async () => {
    const script = '#!/bin/sh\necho etcd Version: 3.5.16\n';
    writeFileSync(join(env['PATH'] ?? '', 'etcd'), script, { mode: 0o755 });
    const { exitCode, stdout } = await new Program(PREPARE, { env: { ...env, HOLDFAST_REQUIRE: 'etcd' } })
      .ended;
    expect(exitCode).toBe(0);
    const file = join(directory, 'cache', ETCD_HOME, ETCD_FILE);
    expect(stdout).toContain(`etcd: ${file}\n`);
    expect(readlinkSync(file)).toBe(join(directory, 'bin', 'etcd'));
  });

  test('what was built before is good enough', async () => {
    for (const { name, version, binaryName = name } of [MINIO, VERSITYGW, FAKE_GCS, TOXIPROXY]) {
      const binary = join(directory, 'cache', `${name}-${version}`, binaryName);
      mkdirSync(dirname(binary), { recursive: true });
      writeFileSync(binary, '');
    }
    for (const file of [
      join(PYTHON_HOME, 'bin', 'python'),
      join(FRAMEWORKS_HOME, 'bin', 'python'),
      join(ETCD_HOME, ETCD_FILE),
      join(ARM64_HOME, ARM64_FILE),
      join(CHROMIUM_HOME, CHROMIUM_FILE),
      join(PROMETHEUS_HOME, PROMETHEUS_FILE),
      join(NODE_WHEEL_HOME, NODE_WHEEL_FILES),
    ]) {
      const program = join(directory, 'cache', file);
      mkdirSync(dirname(program), { recursive: true });
      writeFileSync(program, '');
    }
    const required = {
      ...env,
      HOLDFAST_REQUIRE: 'local,s3,gcs,azure,etcd,python,frameworks,arm64,browser,prometheus',
    };
    const { exitCode, stderr } = await new Program(PREPARE, { env: required }).ended;
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
  });
});
