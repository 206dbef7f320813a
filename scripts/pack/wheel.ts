/** Packs the Python client with the command: one wheel for every machine. */

import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type PythonProject, parseProject } from './project-table.ts';
import { addNatives, MACHINES } from './self-contained.ts';
import { writeZip } from './zip.ts';

/** Nothing in it is compiled for one Python, and other machines than ours need no native code. */
const TAG = 'py3-none-any';
/** What the command needs of the npm package. Types and maps are for users of the library. */
const BUNDLE = /^(dist|dist\/.+(?<!\.map)|package\.json|THIRD-PARTY-LICENSES\.txt)$/;

/** Files of the Python package in the repository, relative to `python`. */
function sourceFiles(root: string): string[] {
  const files = readdirSync(join(root, 'python', 'holdfast'), { recursive: true }) as string[];
  return files.filter((file) => /(\.py|(^|\/)py\.typed)$/.test(file)).map((file) => `holdfast/${file}`);
}

/**
 * Prepares the wheel in `target`, and packs it into the directory of `target`. `whole` is the
 * prepared package `holdfast`. Returns the path of the wheel.
 */
export function packWheel(root: string, whole: string, target: string): string {
  const project = parseProject(readFileSync(join(root, 'python', 'pyproject.toml'), 'utf8'));
  assertVersion(root, whole, project);
  for (const file of sourceFiles(root)) {
    mkdirSync(dirname(join(target, file)), { recursive: true });
    cpSync(join(root, 'python', file), join(target, file));
  }
  const bundle = join(target, 'holdfast', '_bundle');
  cpSync(whole, bundle, {
    recursive: true,
    filter: (path) => path === whole || BUNDLE.test(path.slice(whole.length + 1)),
  });
  for (const machine of MACHINES) addNatives(root, machine, bundle);
  const stem = `${project.name}-${project.version}`;
  writeFacts(root, join(target, `${stem}.dist-info`), project);
  const wheel = join(dirname(target), `${stem}-${TAG}.whl`);
  writeZip(target, writeRecord(target, `${stem}.dist-info/RECORD`), wheel);
  return wheel;
}

function assertVersion(root: string, whole: string, { version }: PythonProject): void {
  const found = {
    'the command': (JSON.parse(readFileSync(join(whole, 'package.json'), 'utf8')) as { version: string })
      .version,
    '_version.py': /^__version__ = "(.+)"$/m.exec(
      readFileSync(join(root, 'python', 'holdfast', '_version.py'), 'utf8'),
    )?.[1],
  };
  for (const [where, other] of Object.entries(found))
    if (other !== version) throw new Error(`pyproject.toml has version ${version}, ${where} has ${other}`);
}

function writeFacts(root: string, directory: string, project: PythonProject): void {
  mkdirSync(join(directory, 'licenses'), { recursive: true });
  cpSync(join(root, 'LICENSE'), join(directory, 'licenses', 'LICENSE'));
  const readme = readFileSync(join(root, 'python', 'README.md'), 'utf8');
  writeFileSync(join(directory, 'METADATA'), `${metadataOf(project)}\n${readme}`);
  const wheel = ['Wheel-Version: 1.0', 'Generator: holdfast', 'Root-Is-Purelib: true', `Tag: ${TAG}`];
  writeFileSync(join(directory, 'WHEEL'), `${wheel.join('\n')}\n`);
  writeFileSync(join(directory, 'entry_points.txt'), entryPointsOf(project));
}

/** The file by which pip makes commands, and other packages find what this one has for them. */
export function entryPointsOf(project: PythonProject): string {
  const groups = Object.entries({ console_scripts: project.scripts, ...project['entry-points'] });
  const sections = groups.map(([group, places]) => {
    const lines = Object.entries(places).map(([name, place]) => `${name} = ${place}\n`);
    return `[${group}]\n${lines.join('')}`;
  });
  return sections.join('\n');
}

function metadataOf(project: PythonProject): string {
  const extras = Object.entries(project['optional-dependencies']).flatMap(([extra, needs]) => [
    `Provides-Extra: ${extra}`,
    ...needs.map((need) => `Requires-Dist: ${need}; extra == "${extra}"`),
  ]);
  const lines = [
    'Metadata-Version: 2.4',
    `Name: ${project.name}`,
    `Version: ${project.version}`,
    `Summary: ${project.description}`,
    `License-Expression: ${project.license}`,
    'License-File: LICENSE',
    `Requires-Python: ${project['requires-python']}`,
    ...project.classifiers.map((classifier) => `Classifier: ${classifier}`),
    ...project.dependencies.map((need) => `Requires-Dist: ${need}`),
    ...extras,
    'Description-Content-Type: text/markdown',
  ];
  return `${lines.join('\n')}\n`;
}

/** Writes the list of all files with their hashes. Returns their names, the list last. */
function writeRecord(target: string, record: string): string[] {
  const names = (readdirSync(target, { recursive: true }) as string[])
    .filter((name) => statSync(join(target, name)).isFile())
    .sort();
  const lines = names.map((name) => {
    const bytes = readFileSync(join(target, name));
    return `${name},sha256=${createHash('sha256').update(bytes).digest('base64url')},${bytes.length}\n`;
  });
  writeFileSync(join(target, record), `${lines.join('')}${record},,\n`);
  return [...names, record];
}
