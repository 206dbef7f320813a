/** The files of the repository, as the rules see them. */

import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/**
 * Maps each path from the root, with '/', to its text. A rule sees nothing else, so a sample can
 * stand for a repository.
 */
export type Repository = ReadonlyMap<string, string>;

/** Returns one line for each fault: the file, then the remedy. */
export type Rule = (repository: Repository) => string[];

const TEXT_FILE = /\.(ts|mjs|js|json|md|svg|proto|yaml|sh)$|^(bin|\.ci)\/|^\.npmrc$/;

/** Every text file that git tracks or would track. Ignored files are not part of the project. */
export function readRepository(): Repository {
  const output = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: ROOT,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  });
  const paths = output.split('\0').filter((path) => TEXT_FILE.test(path) && existsSync(join(ROOT, path)));
  return new Map(paths.map((path) => [path, readFileSync(join(ROOT, path), 'utf8')]));
}

/** Also code that only tests of its folder share: `.testing.ts`. */
export function isTest(path: string): boolean {
  return /\.test(ing)?\.ts$/.test(path);
}

export function isCode(path: string): boolean {
  return /\.(ts|mjs)$/.test(path);
}

/** The folder of the package a file is in, like `packages/core`; undefined outside `packages/`. */
export function packageFolder(path: string): string | undefined {
  return /^packages\/[^/]+/.exec(path)?.[0];
}

/** `./b.ts` seen from `a/c.ts` is `a/b.ts`. */
export function resolveFrom(path: string, relative: string): string {
  return join(dirname(path), relative);
}
