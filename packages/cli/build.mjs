// Bundles the command into one file, because one file starts faster than many.
import { build } from 'esbuild';

await build({
  entryPoints: ['src/main.ts'],
  outfile: 'dist/holdfast.mjs',
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
