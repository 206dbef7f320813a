/** Rewrites the imports of a declaration file. Pure. */

import { posix } from 'node:path';

const SPECIFIER = /(\bfrom\s*|\bimport\s*\(\s*|^\s*import\s+)(['"])([^'"\n]+)\2/gm;

/** The module specifiers of a declaration file, in order. */
export function specifiersOf(text: string): string[] {
  return Array.from(text.matchAll(SPECIFIER), (match) => match[3] as string);
}

function mapSpecifiers(text: string, map: (specifier: string) => string): string {
  return text.replace(
    SPECIFIER,
    (_, before: string, quote: string, specifier: string) => before + quote + map(specifier) + quote,
  );
}

const NODE_REFERENCE = '/// <reference types="node" />\n';

/**
 * Names in a declaration that a program's own settings may lack, and the line that references them.
 */
const REFERENCES: readonly (readonly [RegExp, string])[] = [
  [
    /\b(Async)?Disposable\b|\bSymbol\.(asyncDispose|dispose)\b/,
    '/// <reference lib="esnext.disposable" />\n',
  ],
  [/['"]node:|\bNodeJS\.|\bBuffer\b/, NODE_REFERENCE],
];

/** True if the declarations need those of Node. */
export function needsNodeTypes(published: string): boolean {
  return published.includes(NODE_REFERENCE);
}

/**
 * A declaration file as it is published. `./a.ts` becomes `./a.js`, because the compiler keeps the
 * source's extension and older compilers reject that. References are added for what a program's
 * `lib` and `types` may lack.
 */
export function publishedDeclaration(text: string): string {
  // A comment may name what the code does not use.
  const code = text.replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '');
  const references = REFERENCES.filter(([pattern]) => pattern.test(code)).map(([, line]) => line);
  const rewritten = mapSpecifiers(text, (specifier) =>
    specifier.startsWith('.') ? specifier.replace(/\.ts$/, '.js') : specifier,
  );
  return references.join('') + rewritten;
}

/** Declaration files by path: `core/contract/index.d.ts`. */
export type Declarations = ReadonlyMap<string, string>;

/**
 * The declarations that `entries` need. Imports of other packages become imports of the files
 * beside them. `moduleOf` gives the path of a package's module, ending in `.js`, or `undefined` for
 * a package that stays an import.
 */
export function gatherDeclarations(
  entries: readonly string[],
  read: (path: string) => string,
  moduleOf: (specifier: string) => string | undefined,
): Declarations {
  const gathered = new Map<string, string>();
  const waiting = [...entries];
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (gathered.has(path)) continue;
    const directory = posix.dirname(path);
    const needed: string[] = [];
    const text = mapSpecifiers(publishedDeclaration(read(path)), (specifier) => {
      const isRelative = specifier.startsWith('.');
      const module = isRelative ? posix.join(directory, specifier) : moduleOf(specifier);
      if (module === undefined) return specifier;
      needed.push(module.replace(/\.js$/, '.d.ts'));
      const relative = posix.relative(directory, module);
      return relative.startsWith('.') ? relative : `./${relative}`;
    });
    gathered.set(path, text);
    waiting.push(...needed);
  }
  return gathered;
}
