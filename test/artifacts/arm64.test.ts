/**
 * The arm64 archive runs on a machine that contains nothing else. The machine is a directory whose
 * programs QEMU runs.
 */

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { copyFile, mkdir, rename, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { beforeAll, expect, test } from 'vitest';
import { type Ended, run } from '../e2e/holdfast-process.ts';
import { describeOnServer, whyNone } from '../servers/server-suite.ts';
import { ARM64_TITLE, arm64Machine, copyArm64Machine, runByQemu } from './arm64-machine.ts';
import {
  artifact,
  COMMAND,
  CRC32C_BY,
  INSTALL_TIMEOUT_MS,
  NATIVE_SAID,
  nativeChecksums,
  type Scratch,
  scratch,
  VERSION,
} from './artifacts.ts';

const COMPARE = fileURLToPath(new URL('../native/compare.mjs', import.meta.url));
const HOME = `opt/holdfast-${VERSION}-linux-arm64`;
/** QEMU takes seconds to compile the code of each command, and longer if other tests run. */
const TIMEOUT_MS = 300_000;

interface Machine {
  readonly place: Scratch;
  /** Runs a program of the archive. */
  run(program: string, ...args: readonly string[]): Promise<Ended>;
  stop(): Promise<void>;
}

async function openMachine(): Promise<Machine> {
  const place = await scratch();
  const root = place.path('root');
  await copyArm64Machine(root);
  for (const name of ['opt', 'dev', 'model']) await mkdir(place.path('root', name));
  // The root has no devices. The launcher discards the message about a missing getconf.
  await writeFile(place.path('root', 'dev', 'null'), '');
  const archive = artifact(`holdfast-${VERSION}-linux-arm64.tar.gz`);
  execFileSync('tar', ['-xzf', archive, '-C', place.path('root', 'opt')]);
  await runByQemu(root, `${HOME}/lib/node`);
  const user = process.getuid?.() === 0 ? [] : ['--user', '--map-root-user'];
  const env = { PATH: '/usr/bin:/bin:/usr/sbin:/sbin', HOME: '/nonexistent', NODE_COMPILE_CACHE: '' };
  return {
    place,
    run: (program, ...args) =>
      run(['unshare', ...user, '--net', '--root', root, `/${HOME}/${program}`, ...args], { env }),
    stop: () => place.remove(),
  };
}

const why = await whyNone(ARM64_TITLE, arm64Machine, async () => undefined);

describeOnServer(
  { suite: 'arm64', name: 'the archive for arm64', whyNone: why, open: openMachine },
  (machine) => {
    beforeAll(async () => {
      await writeFile(machine().place.path('root', 'model', 'weights'), 'some weights');
    }, INSTALL_TIMEOUT_MS);

    test(
      'says what it is, also where the loader of arm64 is missing',
      async () => {
        const { run, place } = machine();
        expect(await run('bin/holdfast', 'version')).toEqual({
          code: 0,
          stdout: expect.stringMatching(
            new RegExp(`^holdfast \\S+ +Node 24\\.\\S+ +linux-arm64 +CRC32C by ${CRC32C_BY}\n$`),
          ),
          stderr: '',
        });
        const loader = place.path('root', 'lib', 'ld-linux-aarch64.so.1');
        await rename(loader, `${loader}.away`);
        const refused = await run('bin/holdfast', 'version');
        await rename(`${loader}.away`, loader);
        expect(refused).toMatchObject({ code: 126, stdout: '' });
        expect(refused.stderr).toContain('this build is for linux-arm64 with glibc; this machine is Linux ');
      },
      TIMEOUT_MS,
    );

    test(
      'saves and restores',
      async () => {
        const { run, place } = machine();
        const saved = await run('bin/holdfast', 'save', '/model', 'file:///run', '--version', '3', '--quiet');
        expect(saved).toEqual({ code: 0, stdout: '', stderr: '' });
        const restored = await run('bin/holdfast', 'restore', 'file:///run', '/back', '--quiet');
        expect(restored).toEqual({ code: 0, stdout: '', stderr: '' });
        expect(readFileSync(place.path('root', 'back', 'weights'), 'utf8')).toBe('some weights');
      },
      TIMEOUT_MS,
    );

    test(
      'computes checksums and hashes natively',
      async () => {
        expect(await machine().run('lib/node', '--eval', nativeChecksums(`/${HOME}/${COMMAND}`))).toEqual(
          NATIVE_SAID,
        );
      },
      TIMEOUT_MS,
    );

    test.runIf(CRC32C_BY === 'holdfast')(
      'every kernel of the engine computes CRC32C for any bytes',
      async () => {
        const { run, place } = machine();
        await copyFile(COMPARE, place.path('root', 'compare.mjs'));
        const code = `/${HOME}/lib/holdfast/dist/pieces/crc32c-linux-arm64.node`;
        const ended = await run('lib/node', '/compare.mjs', code);
        expect(ended).toMatchObject({ code: 0, stderr: '' });
        expect(JSON.parse(ended.stdout)).toMatchObject({ kernels: ['128 bits'], wrong: [] });
      },
      TIMEOUT_MS,
    );
  },
);
