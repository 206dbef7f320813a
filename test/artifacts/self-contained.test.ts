/**
 * The archives with Node. They run without a network after unpacking. A machine that cannot run one
 * prints one sentence.
 */

import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { chmod, mkdir, symlink, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { validate } from 'dockerfile-utils';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { run } from '../e2e/holdfast-process.ts';
import {
  ARTIFACTS,
  artifact,
  COMMAND,
  COMMAND_NATIVES,
  CRC32C_BY,
  NATIVE_SAID,
  nativeChecksums,
  readJson,
  type Scratch,
  scratch,
  VERSION,
} from './artifacts.ts';

const ELF_MACHINE_AT = 18;
const ELF_MACHINES = { x64: 62, arm64: 183 } as const;
const OWN = process.arch === 'arm64' ? 'arm64' : 'x64';
const OTHER = OWN === 'x64' ? 'arm64' : 'x64';

let place: Scratch;

function archive(arch: string): string {
  return artifact(`holdfast-${VERSION}-linux-${arch}.tar.gz`);
}

const home = (arch: string) => place.path(`holdfast-${VERSION}-linux-${arch}`);
const program = (arch: string) => join(home(arch), 'bin', 'holdfast');

beforeAll(async () => {
  place = await scratch();
  for (const arch of [OWN, OTHER]) execFileSync('tar', ['-xzf', archive(arch), '-C', place.directory]);
}, 120_000);

afterAll(() => place.remove());

/** Runs as an unprivileged user, without a network, with only the PATH that every Linux has. */
function isolated(words: readonly string[], env: Record<string, string> = {}) {
  const user = process.getuid?.() === 0 ? [] : ['--user', '--map-root-user'];
  const bare = { PATH: '/usr/bin:/bin', HOME: '/nonexistent', NODE_COMPILE_CACHE: '', ...env };
  return run(['unshare', ...user, '--net', ...words], { cwd: place.directory, env: bare });
}

describe('on its own machine', () => {
  test('saves and restores without a network, also by a link', async () => {
    await mkdir(place.path('model'));
    await writeFile(place.path('model', 'weights'), 'some weights');
    await mkdir(place.path('bin'));
    await symlink(program(OWN), place.path('bin', 'holdfast'));
    const uri = pathToFileURL(place.path('run')).href;
    const shown = { code: 0, stdout: `holdfast ${VERSION}\n`, stderr: '' };
    expect(await isolated([program(OWN), '--version'])).toEqual(shown);
    const linked = place.path('bin', 'holdfast');
    expect(await isolated([linked, 'save', 'model', uri, '--version', '3', '--quiet'])).toMatchObject({
      code: 0,
    });
    expect(await isolated([linked, 'restore', uri, 'back', '--quiet'])).toMatchObject({
      code: 0,
      stderr: '',
    });
    expect(readFileSync(place.path('back', 'weights'), 'utf8')).toBe('some weights');
  });

  test('computes checksums and hashes natively', async () => {
    const words = [join(home(OWN), 'lib', 'node'), '--eval', nativeChecksums(join(home(OWN), COMMAND))];
    expect(await isolated(words)).toEqual(NATIVE_SAID);
    expect((await isolated([program(OWN), 'version'])).stdout).toMatch(`CRC32C by ${CRC32C_BY}\n`);
  });

  test('a glibc that is too old is told', async () => {
    const fake = place.path('old-glibc');
    await mkdir(fake);
    await writeFile(join(fake, 'getconf'), '#!/bin/sh\necho glibc 2.17\n');
    await chmod(join(fake, 'getconf'), 0o755);
    expect(await isolated([program(OWN), '--version'], { PATH: `${fake}:/usr/bin:/bin` })).toEqual({
      code: 126,
      stdout: '',
      stderr: expect.stringMatching(
        /^holdfast: this build needs glibc 2\.\d+ or newer; this machine has 2\.17\n$/,
      ),
    });
  });
});

test('on another machine the command says which one it is for', async () => {
  expect(await isolated([program(OTHER), '--version'])).toEqual({
    code: 126,
    stdout: '',
    stderr: expect.stringMatching(
      new RegExp(`^holdfast: this build is for linux-${OTHER} with glibc; this machine is Linux `),
    ),
  });
});

describe.each([OWN, OTHER] as const)('linux-%s', (arch) => {
  const nativesOf = (directory: string) =>
    (readdirSync(join(home(arch), directory), { recursive: true }) as string[])
      .filter((file) => file.endsWith('.node'))
      .map((file) => join(directory, file));

  test('Node and the native code are for it', () => {
    const ofCommand = nativesOf('lib/holdfast/dist');
    expect(ofCommand.map((file) => basename(file)).sort()).toEqual(COMMAND_NATIVES);
    const natives = [
      ...nativesOf('lib/holdfast/node_modules'),
      ...ofCommand.filter((file) => file.includes(arch)),
    ];
    expect(natives).toHaveLength(2 + COMMAND_NATIVES.length / 2);
    for (const file of ['lib/node', ...natives])
      expect(readFileSync(join(home(arch), file)).readUInt16LE(ELF_MACHINE_AT), file).toBe(
        ELF_MACHINES[arch],
      );
  });

  test('has the licences, and the launcher parses', () => {
    expect(readdirSync(home(arch)).sort()).toEqual(['LICENSE', 'NODE-LICENSE', 'bin', 'lib']);
    expect(readJson<{ version: string }>(join(home(arch), 'lib/holdfast/package.json')).version).toBe(
      VERSION,
    );
    execFileSync('sh', ['-n', program(arch)]);
  });
});

describe('Dockerfile', () => {
  const text = readFileSync(join(ARTIFACTS, 'Dockerfile'), 'utf8');

  test('is understood without a complaint', () => {
    expect(validate(text).map(({ message, range }) => `line ${range.start.line + 1}: ${message}`)).toEqual(
      [],
    );
  });

  test('its working directory belongs to root: a save that no volume takes is refused, and not lost', () => {
    const instructions = Array.from(text.matchAll(/^[A-Z]+/gm), String);
    expect(instructions.indexOf('WORKDIR')).toBeLessThan(instructions.indexOf('USER'));
  });

  test.each([
    ['amd64', 'x64'],
    ['arm64', 'arm64'],
  ])('its unpacking takes the archive for %s', async (docker, arch) => {
    const script = /^RUN ((?:.*\\\n)*.*)$/m.exec(text)?.[1] ?? '';
    const root = place.path(`image-${docker}`);
    await mkdir(join(root, 'tmp'), { recursive: true });
    await mkdir(join(root, 'opt'));
    for (const each of [OWN, OTHER])
      await symlink(archive(each), join(root, 'tmp', `holdfast-${VERSION}-linux-${each}.tar.gz`));
    const moved = script.replaceAll('/tmp/', `${root}/tmp/`).replaceAll('/opt/', `${root}/opt/`);
    const ended = await run(['sh', '-euc', moved], { env: { TARGETARCH: docker } });
    expect(ended).toEqual({ code: 0, stdout: '', stderr: '' });
    const node = readFileSync(join(root, 'opt/holdfast/lib/node'));
    expect(node.readUInt16LE(ELF_MACHINE_AT)).toBe(ELF_MACHINES[arch as keyof typeof ELF_MACHINES]);
  });
});
