/** Which packages a program has loaded by its end: of its sources, and of a bundle in which they are one file. */

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const HOOK = new URL('./record-modules.mjs', import.meta.url).href;

/** The SDKs of the clouds with what only they bring along; the adapter is what they belong to. */
const SDK_PACKAGES: Readonly<Record<string, RegExp>> = {
  'store-s3': /^(@aws|@aws-sdk|@aws-crypto|@smithy)\//,
  'store-gcs': /^(@google-cloud\/|google-auth-library$|google-logging-utils$|gcp-metadata$|gtoken$|gaxios$)/,
  'store-azure': /^(@azure|@azure-rest|@typespec)\//,
};

/** Of the modules of a bundle, which tells of each in a comment: `// ../../node_modules/.pnpm/…`, `// ../store-s3/src/…`. */
const BUNDLED = /^\/\/ (\S*(?:node_modules\/|\.\.\/)\S+\.[cm]?[jt]s)$/gm;

export interface LoadedModules {
  /** Names of packages from a registry, sorted. */
  readonly packages: readonly string[];
  /** `store-local`, `store-s3` …: adapters, sorted. */
  readonly stores: readonly string[];
  /** The adapters whose SDKs have been loaded, in part or as a whole, sorted. */
  readonly sdks: readonly string[];
}

/**
 * Runs a program with `run`, which is to start it with these variables added to its environment, and tells what it has loaded. The
 * program must end by itself.
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
  };
}

function bundledPaths(path: string): string[] {
  return [path, ...Array.from(readFileSync(path, 'utf8').matchAll(BUNDLED), ([, name = '']) => `/${name}`)];
}

function sorted(names: readonly (string | undefined)[]): string[] {
  return [...new Set(names.filter((name) => name !== undefined))].sort();
}
