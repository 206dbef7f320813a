/**
 * The published source maps of the bundle hold the text of our own sources only. Maps without any
 * own source are removed. That makes the tarball a third smaller. A stack frame in another package
 * can be looked up in that package.
 */

import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, posix, relative, resolve } from 'node:path';

export interface SourceMap {
  readonly sources: readonly string[];
  readonly sourcesContent: readonly (string | null)[];
}

/** The bundler marks modules that it generated with a namespace before the path. */
const MADE_UP = /^[\w-]+:/;
const LINK = /^\/\/# sourceMappingURL=.*\n?$/m;

/**
 * A map whose sources are named by their path in the package, such as `packages/core/src/a.ts` or
 * `node_modules/b/c.js`. Returns `undefined` if none of them is our own. `pathOf` gives the path of
 * a source in the repository. `up` leads from the map to the package.
 */
export function publishedMap<Map extends SourceMap>(
  map: Map,
  pathOf: (source: string) => string,
  up: string,
): Map | undefined {
  const names = map.sources.map((source) => pathOf(source).replace(/^.*\bnode_modules\//, 'node_modules/'));
  const isOwn = names.map((name) => !name.startsWith('node_modules/'));
  if (!isOwn.includes(true)) return undefined;
  return {
    ...map,
    sources: names.map((name) => posix.join(up, name)),
    sourcesContent: map.sourcesContent.map((text, index) => (isOwn[index] ? text : null)),
  };
}

/**
 * Rewrites the maps of a bundle that is published as the directory `dist` of a package, and removes
 * the maps that are not published.
 */
export function publishMaps(root: string, bundle: string): void {
  for (const file of readdirSync(bundle, { recursive: true }) as string[]) {
    if (!file.endsWith('.map')) continue;
    const path = join(bundle, file);
    const map = JSON.parse(readFileSync(path, 'utf8')) as SourceMap;
    const pathOf = (source: string) =>
      MADE_UP.test(source) ? source : relative(root, resolve(dirname(path), source));
    const published = publishedMap(map, pathOf, relative(dirname(file), '..'));
    if (published !== undefined) writeFileSync(path, JSON.stringify(published));
    else removeMap(path);
  }
}

function removeMap(path: string): void {
  rmSync(path);
  const code = path.replace(/\.map$/, '');
  writeFileSync(code, readFileSync(code, 'utf8').replace(LINK, ''));
}
