/**
 * `npm run pack`: fills `artifacts/` with the tarball of every package, the command with Node inside for each kind of machine, and a
 * Dockerfile. Replaces what is there.
 */

import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { FetchError } from './fetch-package.mjs';
import { writeArchive } from './pack/archive.ts';
import { MACHINES, stageSelfContained } from './pack/self-contained.ts';
import {
  assertSelfContained,
  publishedFolders,
  readManifest,
  stagePackage,
  stageWhole,
} from './pack/stage.ts';
import { BUILD, runStep } from './steps.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const ARTIFACTS = join(ROOT, 'artifacts');
/** Everything is made here and moved when it is whole. */
const STAGE = join(ARTIFACTS, '.stage');
const WHOLE = 'holdfast';

/** The file name that npm gives the tarball of a package. */
function tarballName(name: string, version: string): string {
  return `${name.replace('@', '').replace('/', '-')}-${version}.tgz`;
}

function packPackage(folder: string, made: string[]): string {
  const target = join(STAGE, folder, 'package');
  if (folder === WHOLE) stageBundle(target);
  else stagePackage(ROOT, folder, target);
  assertSelfContained(target);
  const { name, version } = readManifest(ROOT, folder);
  const file = join(STAGE, tarballName(name, version));
  writeArchive(target, file);
  made.push(file);
  return target;
}

function stageBundle(target: string): void {
  const bundle = join(STAGE, 'bundle');
  execFileSync('node', ['packages/cli/build.mjs', '--package', bundle], { cwd: ROOT, stdio: 'inherit' });
  const inputs = JSON.parse(readFileSync(`${bundle}.inputs.json`, 'utf8')) as string[];
  stageWhole(ROOT, bundle, inputs, target);
}

function packAll(): string[] {
  const made: string[] = [];
  for (const folder of publishedFolders(ROOT)) packPackage(folder, made);
  const { version } = readManifest(ROOT, WHOLE);
  for (const machine of MACHINES) {
    const target = join(STAGE, `${WHOLE}-${version}-${machine.name}`);
    stageSelfContained(ROOT, join(STAGE, WHOLE, 'package'), machine, target);
    writeArchive(target, `${target}.tar.gz`);
    made.push(`${target}.tar.gz`);
  }
  const dockerfile = join(STAGE, 'Dockerfile');
  cpSync(join(ROOT, 'packages', WHOLE, 'Dockerfile'), dockerfile);
  return [...made, dockerfile];
}

function main(): void {
  if (!runStep(BUILD)) process.exit(1);
  rmSync(ARTIFACTS, { recursive: true, force: true });
  mkdirSync(STAGE, { recursive: true });
  for (const file of packAll()) {
    const artifact = join(ARTIFACTS, basename(file));
    renameSync(file, artifact);
    console.log(`${String(statSync(artifact).size).padStart(12)} bytes  artifacts/${basename(file)}`);
  }
  rmSync(STAGE, { recursive: true });
}

try {
  main();
} catch (error) {
  if (!(error instanceof FetchError)) throw error;
  console.error(`holdfast: ${error.message}`);
  process.exitCode = 1;
}
