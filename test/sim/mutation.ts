/**
 * Loads the simulation with an engine that contains one mistake. Copies with different mistakes
 * exist side by side.
 */

import { registerHooks } from 'node:module';
import { ENGINE_MUTANTS, SMALL, SMALL_ENGINE } from './engine-mutants.ts';
import { type Change, placesOf } from './mutant.ts';

const CORE = new URL('../../packages/core/src/', import.meta.url).href;
const MUTATED = /\?mutant=(.+)$/;

/**
 * Modules that a mutated module loads are separate copies. Generated code and dependencies are
 * shared.
 */
registerHooks({
  resolve(specifier, context, nextResolve) {
    const resolved = nextResolve(specifier, context);
    const name = MUTATED.exec(context.parentURL ?? '')?.[1];
    const isOwn = resolved.url.endsWith('.ts') && !resolved.url.includes('/packages/wire/');
    return name !== undefined && isOwn ? { ...resolved, url: `${resolved.url}?mutant=${name}` } : resolved;
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
  return import(`./simulation.ts?mutant=${encodeURIComponent(name)}`);
}
