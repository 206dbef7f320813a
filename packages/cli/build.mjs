// Bundles the command: one file that starts fast, and pieces that are loaded when a store asks for its SDK.
import { readdirSync, renameSync, statSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';

const HERE = import.meta.dirname;
const DIST = join(HERE, 'dist');
const ENTRY = `.holdfast-${process.pid}`;
const PIECES = join(DIST, 'pieces');
const PIECE_KEPT_MS = 24 * 60 * 60 * 1000;

await build({
  absWorkingDir: HERE,
  entryPoints: [{ in: 'src/main.ts', out: ENTRY }],
  outdir: DIST,
  outExtension: { '.js': '.mjs' },
  chunkNames: 'pieces/[name]-[hash]',
  splitting: true,
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node22',
  mainFields: ['module', 'main'], // the SDK as ES modules, of which only what is used goes in
  conditions: ['holdfast-source'],
  external: ['@node-rs/crc32', '@napi-rs/blake-hash'], // native; each finds its binary beside its own files
  banner: {
    // CommonJS dependencies in an ES module bundle ask for `require`.
    js: "import { createRequire as holdfastRequire } from 'node:module';\nconst require = holdfastRequire(import.meta.url);",
  },
  logLevel: 'warning',
});
// A command that starts meanwhile reads the old file or the new one, never half of one, and each finds its own pieces.
renameSync(join(DIST, `${ENTRY}.mjs`), join(DIST, 'holdfast.mjs'));
for (const name of readdirSync(PIECES)) {
  const path = join(PIECES, name);
  if (Date.now() - statSync(path).mtimeMs > PIECE_KEPT_MS) unlinkSync(path);
}
