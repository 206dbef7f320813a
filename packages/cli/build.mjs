// Bundles the command into one file, because one file starts faster than many.
import { renameSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';

const HERE = import.meta.dirname;
const TEMPORARY = join(HERE, 'dist', `.holdfast-${process.pid}.mjs`);

await build({
  absWorkingDir: HERE,
  entryPoints: ['src/main.ts'],
  outfile: TEMPORARY,
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node22',
  conditions: ['holdfast-source'],
  external: ['@node-rs/crc32'], // native; it finds its binary beside its own files
  banner: {
    // CommonJS dependencies in an ES module bundle ask for `require`.
    js: "#!/usr/bin/env node\nimport { createRequire as holdfastRequire } from 'node:module';\nconst require = holdfastRequire(import.meta.url);",
  },
  logLevel: 'warning',
});
// A command that starts meanwhile reads the old file or the new one, never half of one.
renameSync(TEMPORARY, join(HERE, 'dist', 'holdfast.mjs'));
