/** Loads the simulation together with an engine that has one mistake in it. Copies of different mistakes live side by side. */

import { registerHooks } from 'node:module';
import { ENGINE_MUTANTS } from './engine-mutants.ts';

const CORE = new URL('../../packages/core/src/', import.meta.url).href;
const MUTATED = /\?mutant=(.+)$/;

/** Modules that are loaded by a mutated one are copies of their own; generated code and other people's are shared. */
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
    const mutant = name === undefined ? undefined : ENGINE_MUTANTS[decodeURIComponent(name)];
    if (!mutant || !url.startsWith(`${CORE}${mutant.file}?`)) return loaded;
    const parts = String(loaded.source).split(mutant.find);
    if (parts.length !== 2) {
      throw new Error(
        `the mutant "${decodeURIComponent(name ?? '')}" is to change one place in ${mutant.file}, and ${parts.length - 1} match`,
      );
    }
    return { ...loaded, source: parts.join(mutant.replace) };
  },
});

/** `name`: of `ENGINE_MUTANTS`. */
export async function loadMutated(name: string): Promise<typeof import('./simulation.ts')> {
  return import(`./simulation.ts?mutant=${encodeURIComponent(name)}`);
}
