/**
 * Writes `src/generated.ts` from `proto/holdfast/v1/*.proto`: one interface per message and a schema constant that the record codec walks.
 * Writes `src/elasticdl.ts` from `proto/elasticdl/*.proto`: the numbers of fields and types.
 * `--check` writes nothing and fails if a file on disk is not what it would write.
 *
 * protobufjs does the parsing and is needed here only; see docs/decisions/0002-records-as-json.md.
 */

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import protobuf from 'protobufjs';
import { render } from './render.ts';
import { renderElasticdl } from './render-elasticdl.ts';

const PROTO_ROOT = fileURLToPath(new URL('../../../proto/', import.meta.url));
const PACKAGE_ROOT = fileURLToPath(new URL('../', import.meta.url));

function loadRoot(directory: string): protobuf.Root {
  const root = new protobuf.Root();
  root.resolvePath = (_origin, target) => `${PROTO_ROOT}${target}`;
  const files = readdirSync(`${PROTO_ROOT}${directory}`)
    .filter((name) => name.endsWith('.proto'))
    .sort();
  // `alternateCommentMode` takes `//` comments for documentation.
  root.loadSync(
    files.map((name) => `${directory}/${name}`),
    { keepCase: true, alternateCommentMode: true },
  );
  root.resolveAll();
  return root;
}

const OUTPUTS: readonly { readonly path: string; readonly text: string }[] = [
  { path: 'src/generated.ts', text: render(loadRoot('holdfast/v1')) },
  { path: 'src/elasticdl.ts', text: renderElasticdl(loadRoot('elasticdl')) },
];

for (const { path, text } of OUTPUTS) {
  if (!process.argv.includes('--check')) {
    writeFileSync(`${PACKAGE_ROOT}${path}`, text);
  } else if (readFileSync(`${PACKAGE_ROOT}${path}`, 'utf8') !== text) {
    console.error(
      `packages/wire/${path} is not what proto/ says; run: pnpm --filter @holdfast/wire generate`,
    );
    process.exitCode = 1;
  }
}
