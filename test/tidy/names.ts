/** Rules about names in the code. */

import { isCode, isTest, packageFolder, type Repository } from './repository.ts';
import { codeOnly } from './syntax.ts';

const DECLARED =
  /^export (?:declare )?(?:abstract )?(?:async )?(?:interface|type|class|function\*?|const|enum) (\w+)/gm;

/** An exported name of a package stands for one thing: two files do not both declare it. */
export function namesOfTwoThings(repository: Repository): string[] {
  const declaring = new Map<string, Set<string>>();
  for (const [path, text] of repository) {
    const folder = packageFolder(path);
    if (folder === undefined || !isCode(path) || isTest(path)) continue;
    for (const [, name] of codeOnly(text).matchAll(DECLARED)) {
      const key = `${folder}: ${name}`;
      declaring.set(key, (declaring.get(key) ?? new Set()).add(path));
    }
  }
  return [...declaring]
    .filter(([, paths]) => paths.size > 1)
    .map(([key, paths]) => `${key} is declared in ${[...paths].join(' and ')}; rename one`);
}
