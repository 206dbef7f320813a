/**
 * `npm run pack`: fills `artifacts/` with the tarball of every package, one archive of the command
 * with Node for each kind of machine, a wheel for Python, and a Dockerfile. Replaces the previous
 * content.
 */

import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ServerUnavailable } from '../test/servers/cached-build.ts';
import { FetchError } from './fetch-package.mjs';
import { writeArchive } from './pack/archive.ts';
import { publishMaps } from './pack/bundle-maps.ts';
import { tryNativeCode } from './pack/native-code.ts';
import { MACHINES, type Machine, stageSelfContained } from './pack/self-contained.ts';
import {
  assertSelfContained,
  publishedFolders,
  readManifest,
  stagePackage,
  stageWhole,
} from './pack/stage.ts';
import { packWheel } from './pack/wheel.ts';
import { BUILD, runStep } from './steps.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const ARTIFACTS = join(ROOT, 'artifacts');
/** Artifacts are made here and moved when they are complete. */
const STAGE = join(ARTIFACTS, '.stage');
const WHOLE = 'holdfast';

/** The file name that npm gives the tarball of a package. */
function tarballName(name: string, version: string): string {
  return `${name.replace('@', '').replace('/', '-')}-${version}.tgz`;
}

async function packPackage(folder: string): Promise<string> {
  const target = join(STAGE, folder, 'package');
  if (folder === WHOLE) stageBundle(target);
  else stagePackage(ROOT, folder, target);
  assertSelfContained(target);
  const { name, version } = readManifest(ROOT, folder);
  const file = join(STAGE, tarballName(name, version));
  await writeArchive(target, file);
  return file;
}

function stageBundle(target: string): void {
  const bundle = join(STAGE, 'bundle');
  execFileSync('node', ['packages/cli/build.mjs', '--package', bundle], { cwd: ROOT, stdio: 'inherit' });
  publishMaps(ROOT, bundle);
  const inputs = JSON.parse(readFileSync(`${bundle}.inputs.json`, 'utf8')) as string[];
  stageWhole(ROOT, bundle, inputs, target);
}

async function packMachine(machine: Machine): Promise<string> {
  const { version } = readManifest(ROOT, WHOLE);
  const target = join(STAGE, `${WHOLE}-${version}-${machine.name}`);
  stageSelfContained(ROOT, join(STAGE, WHOLE, 'package'), machine, target);
  await writeArchive(target, `${target}.tar.gz`);
  return `${target}.tar.gz`;
}

/** Packs everything. Resolves to the artifacts in the order in which they are printed. */
async function packAll(): Promise<string[]> {
  const packages = await Promise.all(publishedFolders(ROOT).map(packPackage));
  // Compressing Node takes most of the time, and each archive uses one core.
  const archives = await Promise.all(MACHINES.map(packMachine));
  const wheel = packWheel(ROOT, join(STAGE, WHOLE, 'package'), join(STAGE, 'wheel'));
  const dockerfile = join(STAGE, 'Dockerfile');
  cpSync(join(ROOT, 'packages', WHOLE, 'Dockerfile'), dockerfile);
  return [...packages, ...archives, wheel, dockerfile];
}

async function main(): Promise<void> {
  await tryNativeCode(ROOT);
  if (!runStep(BUILD)) process.exit(1);
  rmSync(ARTIFACTS, { recursive: true, force: true });
  mkdirSync(STAGE, { recursive: true });
  for (const file of await packAll()) {
    const artifact = join(ARTIFACTS, basename(file));
    renameSync(file, artifact);
    console.log(`${String(statSync(artifact).size).padStart(12)} bytes  artifacts/${basename(file)}`);
  }
  rmSync(STAGE, { recursive: true });
}

try {
  await main();
} catch (error) {
  if (!(error instanceof FetchError || error instanceof ServerUnavailable)) throw error;
  console.error(`holdfast: ${error.message}`);
  process.exitCode = 1;
}
