/** Rules about files: their names, whether they are used, and which files an adapter has. */

import { isCode, isTest, packageFolder, type Repository, resolveFrom } from './repository.ts';
import { codeOnly, importsOf, stringsOf } from './syntax.ts';

const EMPTY_WORDS = new Set(['util', 'utils', 'helper', 'helpers', 'misc']);

function isEmptyName(segment: string): boolean {
  const stem = segment.replace(/(\.test)?\.\w+$/, '');
  return stem === 'common' || stem.split('-').some((word) => EMPTY_WORDS.has(word));
}

/** A name like `utils` says nothing, so any code fits into it. */
export function emptyNames(repository: Repository): string[] {
  return [...repository.keys()]
    .filter((path) => isCode(path) && path.split('/').some(isEmptyName))
    .map((path) => `${path}: name it for what it holds`);
}

export function foldersNotKebabCase(repository: Repository): string[] {
  const folders = [...repository.keys()]
    .filter(isCode)
    .map((path) => path.split('/').slice(0, -1))
    .filter((segments) => segments.some((segment) => !/^[a-z0-9]+(-[a-z0-9]+)*$/.test(segment)));
  return [...new Set(folders.map((segments) => segments.join('/')))].map((path) => `${path}: use kebab-case`);
}

const ADAPTER_FILES = ['index', 'config', 'store', 'upload', 'errors'];
const CLOUD_FILES = [
  ...ADAPTER_FILES,
  ...['client', 'copy', 'credentials', 'headers', 'inspect', 'objects', 'open-uploads'],
];

/**
 * The same file names in every adapter, so that two can be read side by side. An adapter that
 * extends the store of `cloud-http` has more of them.
 */
export function adaptersWithOtherFiles(repository: Repository): string[] {
  const folders = new Set([...repository.keys()].map(packageFolder));
  const overHttp = new Set(
    [...repository]
      .filter(([path, text]) => isCode(path) && importsOf(text).includes('@holdfast/cloud-http'))
      .map(([path]) => packageFolder(path)),
  );
  return [...folders]
    .filter((folder) => folder?.startsWith('packages/store-'))
    .flatMap((folder) => {
      const names = overHttp.has(folder) ? CLOUD_FILES : ADAPTER_FILES;
      return names.map((name) => `${folder}/src/${name}.ts`);
    })
    .filter((path) => !repository.has(path))
    .map((path) => `${path}: every such adapter has this file`);
}

/**
 * Files that a string in a file may refer to: relative to the file, to its package, or to the root.
 */
function targetsOf(path: string, text: string): string[] {
  // Words in a shell script or a command line are not quoted.
  const words = isCode(path) ? stringsOf(text) : text.split(/[\s"'=]+/);
  const names = words.flatMap((word) => word.split(/[\s"'=]+/)).filter((word) => /\.(ts|mjs|js)$/.test(word));
  const home = packageFolder(path) ?? path.split('/')[0] ?? '';
  return names
    .map((name) => name.replace(/^dist\/(.*)\.js$/, 'src/$1.ts'))
    .flatMap((name) => [resolveFrom(path, name), resolveFrom(`${home}/x`, name), resolveFrom('x', name)]);
}

/**
 * Code that is used only by its own test. Tests, and files that they name in a string, are used.
 */
export function filesNothingImports(repository: Repository): string[] {
  const needed = new Set<string>();
  for (const [path, text] of repository) {
    if (path.endsWith('.md') || (isTest(path) && path.startsWith('packages/'))) continue;
    for (const target of targetsOf(path, text)) if (target !== path) needed.add(target);
  }
  return [...repository.keys()]
    .filter((path) => isCode(path) && !isTest(path) && path !== 'vitest.config.ts' && !needed.has(path))
    .map((path) => `${path}: nothing imports it; delete it, or import it`);
}

const IMPURE: readonly (readonly [RegExp, string])[] = [
  [/\basync\b|\bawait\b|\bPromise\b/, 'is asynchronous'],
  [
    /\bDate\.now\b|\bnew Date\(\s*\)|\bperformance\.now\b|\bset(Timeout|Interval|Immediate)\b/,
    'reads a clock',
  ],
  [/\bMath\.random\b|\brandomUUID\b|\brandomBytes\b|\bgetRandomValues\b/, 'takes chance from the air'],
];

/** `format/` and `plan/` are pure: they get time and random numbers as values. */
export function impureFiles(repository: Repository): string[] {
  return [...repository]
    .filter(([path]) => /^packages\/core\/src\/(format|plan)\//.test(path) && !isTest(path))
    .flatMap(([path, text]) =>
      IMPURE.filter(([pattern]) => pattern.test(codeOnly(text))).map(
        ([, what]) => `${path}: ${what}; format/ and plan/ are pure: pass the value in`,
      ),
    );
}

/** All packages have one version and a README each, and only `npm run pack` can publish them. */
export function unpublishable(repository: Repository): string[] {
  const manifests = [...repository].filter(([path]) => /^packages\/[^/]+\/package\.json$/.test(path));
  const versions = new Set(manifests.map(([, text]) => JSON.parse(text).version));
  return manifests.flatMap(([path, text]) => {
    const home = packageFolder(path);
    const needsReadme = home !== 'packages/cli' && !repository.has(`${home}/README.md`);
    return [
      ...(versions.size > 1
        ? [`${path}: all packages have one version; found ${[...versions].join(', ')}`]
        : []),
      ...(JSON.parse(text).private === true ? [] : [`${path}: "private": true is missing`]),
      ...(needsReadme ? [`${home}/README.md: every package has one`] : []),
    ];
  });
}
