/**
 * The packed command and library contain every module that they load on demand, with the names that
 * callers use.
 */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, test } from 'vitest';
import { cleanEnv, newPlace, run } from './holdfast-process.ts';
import { PACKED_DIRECTORY, packPackage } from './packed-command.ts';

/**
 * Matches `const { GoogleAuth } = await import("./src-44H6XD43.mjs")` and `(await
 * import("./x.mjs")).name`: the chunk, and the names if present.
 */
const LOADS = /(?:\{([^{}]*)\} = await )?import\("(\.[^"]+\.mjs)"\)(?:\)\.(\w+))?/g;
const PARTS = /(?:from|import) "(\.[^"]+\.mjs)"/g;

interface Load {
  readonly piece: string;
  readonly names: readonly string[];
}

function loadsOf(path: string, text: string): Load[] {
  return Array.from(text.matchAll(LOADS), ([, names = '', target = '', member = '']) => ({
    piece: join(path, '..', target),
    names: `${names},${member}`.split(',').flatMap((name) => name.split(':')[0]?.trim() || []),
  }));
}

/**
 * Everything that the program may load, starting from its file. Chunks of earlier builds may lie
 * beside its own.
 */
async function allLoads(program: string): Promise<Load[]> {
  const loads: Load[] = [];
  const paths = new Set([program]);
  for (const path of paths) {
    const text = await readFile(path, 'utf8');
    const found = loadsOf(path, text);
    loads.push(...found);
    for (const [, part = ''] of text.matchAll(PARTS)) paths.add(join(path, '..', part));
    for (const { piece } of found) paths.add(piece);
  }
  return loads;
}

/** Loads all chunks in a separate process, which prints missing names. */
async function expectNames(loads: readonly Load[]): Promise<void> {
  // Checks that the search finds the known on-demand names at all.
  for (const name of ['GoogleAuth', 'getDefaultRoleAssumer', 'SSOOIDCClient', 'HttpsProxyAgent'])
    expect(loads.flatMap(({ names }) => names)).toContain(name);
  const asked = loads.map(({ piece, names }) => ({ url: pathToFileURL(piece).href, names }));
  const program = `
    for (const { url, names } of ${JSON.stringify(asked)}) {
      const all = await import(url);
      if (Object.keys(all).every((name) => name === 'default')) console.log(url, 'has a default alone');
      for (const name of names) if (!(name in all)) console.log(url, 'lacks', name);
    }`;
  const words = [process.execPath, '--input-type=module', '--eval', program];
  expect(await run(words, { env: cleanEnv() })).toEqual({ code: 0, stdout: '', stderr: '' });
}

describe('every module that is loaded on demand has the names that are asked of it', () => {
  test('by the command of a clone', async () => {
    await expectNames(await allLoads(join(PACKED_DIRECTORY, 'holdfast.mjs')));
  });

  test('by the command and the library of the package', async () => {
    const { directory } = await newPlace();
    await packPackage(directory);
    for (const name of ['command', 'index'])
      await expectNames(await allLoads(join(directory, `${name}.mjs`)));
  });
});
