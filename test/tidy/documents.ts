/** Rules that keep documents and code consistent. */

import { isTest, type Repository, resolveFrom } from './repository.ts';
import { stringsOf } from './syntax.ts';

/** Each invariant in docs/format.md (I0, I1, …) must appear in the name of a test. */
export function invariantsWithoutTest(repository: Repository): string[] {
  const document = repository.get('docs/format.md');
  if (document === undefined) {
    const isNeeded = [...repository.keys()].some((path) => path.startsWith('packages/core/src/format/'));
    return isNeeded
      ? ['docs/format.md: missing; it describes packages/core/src/format and the invariants']
      : [];
  }
  const invariants = [...new Set(document.match(/\bI\d{1,2}\b/g) ?? [])];
  if (invariants.length === 0) return ['docs/format.md: names no invariant (I0, I1, …)'];
  const names = [...repository]
    .filter(([path]) => isTest(path) || path.startsWith('packages/testkit/src/'))
    .filter(([path]) => !path.startsWith('test/tidy'))
    .flatMap(([, text]) => stringsOf(text));
  return invariants
    .filter((invariant) => !names.some((name) => new RegExp(`\\b${invariant}\\b`).test(name)))
    .map((invariant) => `${invariant} of docs/format.md: no test has it in its name`);
}

function linksOf(markdown: string): string[] {
  const prose = markdown.replace(/^(```|~~~)[\s\S]*?^\1/gm, '').replace(/`[^`\n]*`/g, '');
  return Array.from(prose.matchAll(/\]\(<?([^)\s>]+)>?[^)]*\)/g), (match) => match[1] ?? '');
}

export function deadLinks(repository: Repository, exists: (path: string) => boolean = () => false): string[] {
  const isThere = (path: string): boolean =>
    repository.has(path) ||
    [...repository.keys()].some((file) => file.startsWith(`${path}/`)) ||
    exists(path);
  return [...repository]
    .filter(([path]) => path.endsWith('.md'))
    .flatMap(([path, text]) =>
      linksOf(text)
        .filter((link) => !/^([a-z][a-z+.-]*:|#)/i.test(link))
        .map((link) => decodeURIComponent(link.replace(/[#?].*$/, '')))
        .filter((link) => !isThere(resolveFrom(path, link).replace(/\/$/, '')))
        .map((link) => `${path}: "${link}" leads nowhere`),
    );
}

const LEFTOVERS = new RegExp(
  `\\b(${['FIX', 'TO', 'XX'].map((start, i) => start + ['ME', 'DO', 'X'][i]).join('|')})\\b`,
);

/** Remaining work belongs in an issue, not in a comment. */
export function leftovers(repository: Repository): string[] {
  return [...repository]
    .flatMap(([path, text]) =>
      text.split('\n').map((line, index) => ({ where: `${path}:${index + 1}`, line })),
    )
    .filter(({ line }) => LEFTOVERS.test(line))
    .map(({ where, line }) => `${where}: do it, or file an issue: ${line.trim()}`);
}

/** The source of packages is a setting of each machine. */
export function registryHosts(repository: Repository): string[] {
  return ['pnpm-lock.yaml', '.npmrc', 'pnpm-workspace.yaml']
    .filter((path) => /https?:\/\/|^\s*(@\w+:)?registry\b/m.test(repository.get(path) ?? ''))
    .map((path) => `${path}: names a registry; leave that to the settings of each machine`);
}
