/**
 * Loads the simulation with an engine that contains one mistake. Copies with different mistakes
 * exist side by side.
 */

import { registerHooks } from 'node:module';
import { ENGINE_MUTANTS, SMALL, SMALL_ENGINE } from './engine-mutants.ts';
import { type Change, placesOf } from './mutant.ts';

const CORE = new URL('../../packages/core/src/', import.meta.url).href;
const MUTATED = /\?mutant=(.+)$/;

/** Our modules that import a module, by its URL. Known once the first copy is loaded. */
const importers = new Map<string, Set<string>>();

/** The module, and all of ours that lead to it. */
function dependentsOf(url: string, found = new Set<string>()): Set<string> {
  if (found.has(url)) return found;
  found.add(url);
  for (const importer of importers.get(url) ?? []) dependentsOf(importer, found);
  return found;
}

/** The modules to copy for each mutant: those that lead to its mistake. */
const copied = new Map<string, ReadonlySet<string>>();

function copiedFor(name: string): ReadonlySet<string> {
  const known = copied.get(name);
  if (known) return known;
  const all = new Set<string>();
  for (const { file } of changesOf(name)) dependentsOf(`${CORE}${file}`, all);
  copied.set(name, all);
  return all;
}

/**
 * The first copy has all modules. Each later one has only those that lead to its mistake, and
 * shares the others. Generated code and dependencies are always shared.
 */
registerHooks({
  resolve(specifier, context, nextResolve) {
    const resolved = nextResolve(specifier, context);
    const [importer = '', encoded] = (context.parentURL ?? '').split('?mutant=');
    const isOwn = resolved.url.endsWith('.ts') && !resolved.url.includes('/packages/wire/');
    if (encoded === undefined || !isOwn) return resolved;
    const name = decodeURIComponent(encoded);
    if (name === SMALL_ENGINE)
      importers.set(resolved.url, (importers.get(resolved.url) ?? new Set()).add(importer));
    const isCopied = name === SMALL_ENGINE || copiedFor(name).has(resolved.url);
    return isCopied ? { ...resolved, url: `${resolved.url}?mutant=${encoded}` } : resolved;
  },
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    const name = MUTATED.exec(url)?.[1];
    const changes = name === undefined ? [] : changesOf(decodeURIComponent(name));
    const own = changes.filter(({ file }) => url.startsWith(`${CORE}${file}?`));
    if (own.length === 0) return loaded;
    return { ...loaded, source: own.reduce(changed, String(loaded.source)) };
  },
});

function changesOf(name: string): readonly Change[] {
  const mutant = ENGINE_MUTANTS[name];
  if (!mutant) return name === SMALL_ENGINE ? SMALL : [];
  return mutant.isSmall ? [mutant, ...SMALL] : [mutant];
}

function changed(source: string, change: Change): string {
  const { file, find, replace } = change;
  const places = placesOf(change, source);
  if (places === 1) return source.split(find).join(replace);
  throw new Error(`"${find}" is to be changed in one place of ${file}, and is in ${places}`);
}

/** `name`: a name in `ENGINE_MUTANTS`, or `SMALL_ENGINE`. */
export async function loadMutated(name: string): Promise<typeof import('./simulation.ts')> {
  if (importers.size === 0 && name !== SMALL_ENGINE) await loadMutated(SMALL_ENGINE);
  return import(`./simulation.ts?mutant=${encodeURIComponent(name)}`);
}
