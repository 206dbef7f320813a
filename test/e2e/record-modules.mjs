/**
 * Loaded with `--import` before a program. Writes the URLs of all modules that the program loads,
 * also those of Node itself, to the file that HOLDFAST_LOADED_MODULES names.
 */

import { writeFileSync } from 'node:fs';
import { registerHooks } from 'node:module';

const loaded = new Set();
registerHooks({
  load: (url, context, nextLoad) => {
    loaded.add(url);
    return nextLoad(url, context);
  },
});
process.on('exit', () => {
  const ofNode = process.moduleLoadList.map((name) => name.replace('NativeModule ', 'node:'));
  writeFileSync(process.env.HOLDFAST_LOADED_MODULES, JSON.stringify([...loaded, ...ofNode]));
});
