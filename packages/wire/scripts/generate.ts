/**
 * Writes `src/generated.ts` from `proto/holdfast/v1/*.proto`: one interface per message and a schema constant that the record codec walks.
 * `--check` writes nothing and fails if the file on disk is not what it would write.
 *
 * protobufjs does the parsing and is needed here only; see docs/decisions/0002-records-as-json.md.
 */

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import protobuf from 'protobufjs';
import { render } from './render.ts';

const PROTO_ROOT = fileURLToPath(new URL('../../../proto/', import.meta.url));
const PROTO_DIR = 'holdfast/v1';
const OUTPUT = fileURLToPath(new URL('../src/generated.ts', import.meta.url));

function loadRoot(): protobuf.Root {
  const root = new protobuf.Root();
  root.resolvePath = (_origin, target) => `${PROTO_ROOT}${target}`;
  const files = readdirSync(`${PROTO_ROOT}${PROTO_DIR}`)
    .filter((name) => name.endsWith('.proto'))
    .sort();
  // `alternateCommentMode` takes `//` comments for documentation.
  root.loadSync(
    files.map((name) => `${PROTO_DIR}/${name}`),
    { keepCase: true, alternateCommentMode: true },
  );
  root.resolveAll();
  return root;
}

const wanted = render(loadRoot());
if (process.argv.includes('--check')) {
  const found = readFileSync(OUTPUT, 'utf8');
  if (found !== wanted) {
    console.error(
      'packages/wire/src/generated.ts is not what proto/ says; run: pnpm --filter @holdfast/wire generate',
    );
    process.exitCode = 1;
  }
} else {
  writeFileSync(OUTPUT, wanted);
}
