/**
 * The packages that a program has loaded at its end, both for sources and for a bundle that
 * contains them in one file.
 */

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const HOOK = new URL('./record-modules.mjs', import.meta.url).href;

/** The clouds' SDKs with packages that only they need, by adapter. */
const SDK_PACKAGES: Readonly<Record<string, RegExp>> = {
  'store-s3': /^(@aws|@aws-sdk|@aws-crypto|@smithy)\//,
  'store-gcs': /^(@google-cloud\/|google-auth-library$|google-logging-utils$|gcp-metadata$|gtoken$|gaxios$)/,
  'store-azure': /^(@azure|@azure-rest|@typespec)\//,
};

/**
 * Finds the modules of a bundle, which names each in a comment: `// ../../node_modules/.pnpm/…`,
 * `// ../store-s3/src/…`.
 */
const BUNDLED = /^\/\/ (\S*(?:node_modules\/|\.\.\/)\S+\.[cm]?[jt]s)$/gm;

export interface LoadedModules {
  /** Names of packages from a registry, sorted. */
  readonly packages: readonly string[];
  /** Names of adapters, such as `store-local` and `store-s3`, sorted. */
  readonly stores: readonly string[];
  /** The adapters whose SDKs have been loaded, at least in part, sorted. */
  readonly sdks: readonly string[];
  /** Packages of the project that only some commands need, sorted. */
  readonly onDemand: readonly string[];
  /** Modules of Node that take long to load, such as `node:http`, sorted. */
  readonly costly: readonly string[];
}

const ON_DEMAND = /\/(agent|fleet|testkit|training|ui)\/(?:src|dist)\//;

/** Each takes from 15 to 40 ms: Node's HTTP client brings its implementation of `fetch` along. */
const COSTLY = ['node:http', 'node:http2', 'node:https', 'node:internal/deps/undici/undici', 'node:tls'];

/**
 * Runs a program with `run` and returns the modules that it has loaded. `run` must add these
 * variables to the program's environment. The program must exit by itself.
 */
export async function loadedModules(
  run: (env: Record<string, string>) => Promise<unknown>,
): Promise<LoadedModules> {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-modules-'));
  try {
    const path = join(directory, 'modules.json');
    await run({ NODE_OPTIONS: `--import=${HOOK}`, HOLDFAST_LOADED_MODULES: path });
    return modulesOf(JSON.parse(readFileSync(path, 'utf8')) as string[]);
  } finally {
    rmSync(directory, { recursive: true });
  }
}

function modulesOf(urls: readonly string[]): LoadedModules {
  const paths = urls
    .filter((url) => url.startsWith('file:'))
    .map((url) => fileURLToPath(url))
    .flatMap((path) => (path.includes('/cli/dist/') ? bundledPaths(path) : [path]));
  const packages = sorted(paths.map((path) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]));
  const sdks = Object.keys(SDK_PACKAGES).filter((store) =>
    packages.some((name) => SDK_PACKAGES[store]?.test(name)),
  );
  return {
    packages,
    stores: sorted(paths.map((path) => /\/(store-[a-z0-9]+)\/(?:src|dist)\//.exec(path)?.[1])),
    sdks,
    onDemand: sorted(paths.map((path) => ON_DEMAND.exec(path)?.[1])),
    costly: COSTLY.filter((name) => urls.includes(name)),
  };
}

function bundledPaths(path: string): string[] {
  return [path, ...Array.from(readFileSync(path, 'utf8').matchAll(BUNDLED), ([, name = '']) => `/${name}`)];
}

function sorted(names: readonly (string | undefined)[]): string[] {
  return [...new Set(names.filter((name) => name !== undefined))].sort();
}
