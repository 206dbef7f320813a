// Bundles the command: one file that starts fast, and pieces that are loaded when a store asks for its SDK.
// With `--package DIR` it bundles the command and the library of the package `holdfast` into DIR. They share their pieces.
// With `--programs DIR FILE…` it bundles these programs of tests into DIR.
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { buildPage } from '@holdfast/ui/build';
import { build } from 'esbuild';

const HERE = import.meta.dirname;
const DIST = join(HERE, 'dist');
const ENTRY = `.holdfast-${process.pid}`;
const PIECES = join(DIST, 'pieces');
/** Code that a compiler has made, if one has: of the engine and of the command. It goes beside the pieces. */
const NATIVE_PATHS = ['../core/native', 'native'].flatMap((directory) =>
  readdirSync(join(HERE, directory))
    .filter((name) => name.endsWith('.node'))
    .map((name) => join(HERE, directory, name)),
);
const NATIVE_FILES = NATIVE_PATHS.map((path) => basename(path));
const PIECE_KEPT_MS = 24 * 60 * 60 * 1000;
const LIBRARY = ['index', 'training', 'elasticdl', 'opentelemetry'];
const [mode, directory, ...programs] = process.argv.slice(2);
const isPackage = mode === '--package';
const isOfTests = mode === '--programs';

/** What a transfer worker loads, by the name of its piece. The main thread finds it beside its own. */
const OF_WORKERS = {
  'transfer-worker': '../core/src/workers/thread.ts',
  'checksum-service': '../core/src/workers/checksum-service.ts',
  'http-service': '../cloud-http/src/http-service.ts',
};

const OPTIONS = {
  absWorkingDir: HERE,
  entryPoints: [
    ...(isOfTests
      ? programs.map((path) => ({ in: resolve(path), out: basename(path, '.ts') }))
      : [{ in: 'src/main.ts', out: isPackage ? 'command' : ENTRY }]),
    ...Object.entries(OF_WORKERS).map(([name, path]) => ({ in: path, out: `pieces/${name}` })),
    ...(isPackage ? LIBRARY.map((name) => ({ in: `../holdfast/src/${name}.ts`, out: name })) : []),
  ],
  outdir: directory ?? DIST,
  metafile: true,
  outExtension: { '.js': '.mjs' },
  chunkNames: 'pieces/[name]-[hash]',
  splitting: true,
  bundle: true,
  sourcemap: isPackage && 'linked',
  format: 'esm',
  platform: 'node',
  target: 'node22',
  // The SDKs as ES modules, of which only what is used goes in. esbuild forgets "module" where other conditions are named.
  mainFields: ['module', 'main'],
  conditions: ['holdfast-source', 'module'],
  external: ['@node-rs/crc32', '@napi-rs/blake-hash'], // native; each finds its binary beside its own files
  banner: {
    // CommonJS dependencies in an ES module bundle ask for `require`.
    js: "import { createRequire as holdfastRequire } from 'node:module';\nconst require = holdfastRequire(import.meta.url);",
  },
  logLevel: 'warning',
};

/** The CommonJS modules that something loads by `import()`: from who asks, and for what, to a path. */
async function importsOfCommonJs() {
  const { metafile } = await build({ ...OPTIONS, write: false, metafile: true });
  const found = new Map();
  for (const [importer, { imports }] of Object.entries(metafile.inputs)) {
    for (const { kind, original, path } of imports) {
      if (kind !== 'dynamic-import' || metafile.inputs[path]?.format !== 'cjs') continue;
      found.set(`${resolve(HERE, importer)} ${original}`, resolve(HERE, path));
    }
  }
  return found;
}

/**
 * In a bundle of pieces esbuild gives an `import()` of CommonJS the default export alone, where Node gives the names too. So each is
 * led to a module that exports what Node exports.
 */
function namedAsInNode(found) {
  return {
    name: 'named-as-in-node',
    setup({ onResolve, onLoad }) {
      const asked = [...found.keys()].map((key) => RegExp.escape(key.slice(key.lastIndexOf(' ') + 1)));
      onResolve({ filter: new RegExp(`^(?:${asked.join('|')})$`) }, ({ kind, importer, path }) => {
        const target = kind === 'dynamic-import' ? found.get(`${importer} ${path}`) : undefined;
        // The path gets into the bundle, which says nothing of this machine.
        return target && { path: relative(HERE, target), namespace: 'named' };
      });
      onLoad({ filter: /./, namespace: 'named' }, async ({ path: name }) => {
        const path = resolve(HERE, name);
        const exported = Object.keys(await import(pathToFileURL(path).href));
        const names = exported.filter((name) => name !== 'default' && name !== 'module.exports');
        const source = `const all = require(${JSON.stringify(path)}); export default all;`;
        return {
          contents: `${source} export const { ${names.join(', ')} } = all;`,
          resolveDir: dirname(path),
        };
      });
    },
  };
}

/** In a bundle the modules of workers are pieces. Code that looks for them is in a piece, or beside them all. */
const PIECES_URL = `new URL(/\\/pieces\\/[^/]*$/.test(import.meta.url) ? './' : './pieces/', import.meta.url)`;
const ofWorkers = {
  name: 'modules-of-workers',
  setup({ onLoad }) {
    onLoad({ filter: /\/native-directory\.ts$/ }, () => ({
      contents: `export const nativeDirectory = () => ${PIECES_URL};`,
    }));
    onLoad({ filter: /\/(worker-files|service-file)\.ts$/ }, () => ({
      contents: `
        const pieces = ${PIECES_URL};
        const piece = (name) => new URL(name + '.mjs', pieces);
        export const THREAD_FILE = piece('transfer-worker');
        export const CHECKSUM_SERVICE = piece('checksum-service');
        export const HTTP_SERVICE = piece('http-service');
        export const THREAD_FLAGS = [];`,
    }));
  },
};

const page = isOfTests ? { html: '', inputs: [] } : await buildPage();

/** The page of `holdfast ui` is a piece with its text, so that it needs no file beside it. */
const thePage = {
  name: 'the-page',
  setup({ onLoad }) {
    onLoad({ filter: /\/page-text\.ts$/ }, () => ({
      contents: `export const readPage = async () => ${JSON.stringify(page.html)};`,
    }));
  },
};

const { metafile, outputFiles } = await build({
  ...OPTIONS,
  write: !isOfTests,
  plugins: [namedAsInNode(await importsOfCommonJs()), ofWorkers, thePage],
});
const inputs = [...Object.keys(metafile.inputs), ...page.inputs.map((path) => join('../ui', path))];
if (isPackage) writeFileSync(`${directory}.inputs.json`, JSON.stringify(inputs));
else if (isOfTests) for (const file of outputFiles) replaceFile(file);
else replaceCommand();
for (const path of NATIVE_PATHS)
  replaceFile({
    path: join(OPTIONS.outdir, 'pieces', basename(path)),
    contents: readFileSync(path),
  });

/** A program that starts meanwhile reads the old file or the new one. What has not changed stays compiled. */
function replaceFile({ path, contents }) {
  try {
    if (readFileSync(path).equals(contents)) return;
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
  }
  mkdirSync(dirname(path), { recursive: true });
  const temporary = `${path}.${process.pid}`;
  writeFileSync(temporary, contents);
  renameSync(temporary, path);
}

/** A command that starts meanwhile reads the old file or the new one, never half of one, and each finds its own pieces. */
function replaceCommand() {
  renameSync(join(DIST, `${ENTRY}.mjs`), join(DIST, 'holdfast.mjs'));
  for (const name of readdirSync(PIECES)) {
    const path = join(PIECES, name);
    if (NATIVE_FILES.includes(name)) continue;
    if (Date.now() - statSync(path).mtimeMs > PIECE_KEPT_MS) unlinkSync(path);
  }
}
