/** The demo as a user runs it, with a small model. */

import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { heldOut, trainingBatch } from '@holdfast/examples/demo/clicks';
import { evaluate } from '@holdfast/examples/demo/evaluation';
import { ParameterShard } from '@holdfast/examples/demo/parameter-shard';
import { shapeOf } from '@holdfast/examples/demo/parameters';
import { SharedModel } from '@holdfast/examples/demo/shared-model';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { describeOnAzurite } from '../servers/describe-on-azure.ts';
import { describeOnFakeGcs } from '../servers/describe-on-gcs.ts';
import { describeOnMinio } from '../servers/describe-on-s3.ts';
import { Program } from './program.ts';

const DEMO = 'examples/demo/main.ts';
let directory: string;

/** Each demo starts a dozen processes with the same programs, so these are compiled once. */
let compileCache: string;

beforeAll(async () => {
  compileCache = await mkdtemp(join(tmpdir(), 'holdfast-demo-test-compiled-'));
});

afterAll(() => rm(compileCache, { recursive: true, force: true, maxRetries: 5 }));

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'holdfast-demo-test-'));
});

afterEach(() => rm(directory, { recursive: true, force: true, maxRetries: 5 }));

function startDemo(...args: string[]): Program {
  return new Program(DEMO, { args, env: { TMPDIR: directory, NODE_COMPILE_CACHE: compileCache } });
}

function childrenOf(pid: number): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  return text === '' ? [] : text.split(' ').map(Number);
}

/** Children, their children, and so on. */
function descendantsOf(pid: number): number[] {
  return childrenOf(pid).flatMap((child) => [child, ...descendantsOf(child)]);
}

/** A zombie, which has ended but was not waited for, counts as ended. */
function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false; // no such process
  }
}

/** So small that its work takes no longer than starting its processes. */
const SMALL = ['--size', '4MiB', '--steps', '20'];

/** Expects all chapters of a small demo. */
function expectWholeStory(stdout: string): void {
  for (const line of [
    /version 20: 4 MiB committed, loss 0\.6\d+, AUC 0\.\d{4}$/m,
    /version 60: 4 MiB committed/,
    /SIGKILL: process \d+ is gone/,
    /nothing of version 80 can be seen; the latest is still 60/,
    /version 60, of which the others have kept copies: loss 0\.\d{4}, AUC 0\.\d{4} again/,
    /version 80: 4 MiB committed/,
    /version 100 lacks nothing but the rest of server 0's share; the latest is still 80/,
    /version 80: both servers have restored their shares, [\d,]+ rows together/,
    /to the last bit what was recorded when three servers saved it/,
    /the zombie says: .*\n.* \(Fenced\)/,
    /version 140: 4 MiB committed/,
    /updates 80 to 100: mean loss/,
    /has the best AUC, 0\.[67]\d+: 2 MiB, \S+model\.safetensors$/m,
    /all 8,192 predictions of the file are those of the live model, to the last bit/,
  ]) {
    expect(stdout).toMatch(line);
  }
}

/**
 * The loss of an uninterrupted job: the same number of updates with the same code, in this process.
 */
async function lossWithoutBreak(updateCount: number): Promise<number> {
  const shape = shapeOf(20_260, 4 * 2 ** 20);
  const server = ParameterShard.begin(shape, { index: 0, count: 1 });
  const model = new SharedModel([
    { pull: async (ids) => server.pull(ids), push: async (...given) => server.push(...given) },
  ]);
  for (let update = 0; update < updateCount; update++) {
    await model.learn(trainingBatch(shape, update % 2, Math.floor(update / 2)));
  }
  const clicks = heldOut(shape);
  return evaluate(await model.predict(clicks), clicks).loss;
}

describe('demo', () => {
  it('tells the whole story, every expectation holds, and it leaves a store and an exported model', async () => {
    const { exitCode, stdout, stderr } = await startDemo(...SMALL).ended;
    expect(stderr).toBe('');
    expect(exitCode).toBe(0);
    expectWholeStory(stdout);
    const left = /rm -r (\S+)/.exec(stdout)?.[1] ?? '';
    expect(left.startsWith(directory)).toBe(true);
    expect((await readdir(left)).sort()).toEqual(['model.json', 'model.safetensors', 'run']);

    const lossBefore = (outcome: string) =>
      Number(new RegExp(`(0\\.\\d{4}) +0\\.\\d{4} +${outcome}$`, 'm').exec(stdout)?.[1]);
    const untrained = lossBefore('before the first update');
    const broken = lossBefore('exported');
    const unbroken = await lossWithoutBreak(140);
    expect(Math.abs(broken - unbroken)).toBeLessThan(0.1 * (untrained - unbroken));
  }, 60_000);

  it('a signal ends it and every process it started, a frozen one too', async () => {
    const demo = startDemo(...SMALL);
    const frozen = Number((await demo.says(/SIGSTOP: process (\d+) /))[1]);
    await demo.says(/The job starts anew/);
    const children = childrenOf(demo.pid);
    expect(children.filter(isAlive)).toContain(frozen);
    demo.kill('SIGINT');
    const { exitCode, stderr } = await demo.ended;
    expect(exitCode).toBe(130);
    expect(stderr).toMatch(/^\nstopped, /);
    await vi.waitFor(() => expect(children.filter(isAlive)).toEqual([]), { timeout: 10_000 });
  }, 60_000);

  it('a store that is lost in the middle is a failure: exit code 1, a message, no stack trace', async () => {
    const store = join(directory, 'store');
    const demo = startDemo(...SMALL, '--dir', store);
    await demo.says(/version 20: .* committed/);
    await rm(join(store, 'run'), { recursive: true, maxRetries: 20 });
    const { exitCode, stderr } = await demo.ended;
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/^\nthe demo failed: .+/);
    expect(stderr).not.toMatch(/^\s+at /m);
  }, 60_000);

  it('--uri: the same at a URI, which stays; nothing is put beside what is there', async () => {
    const uri = pathToFileURL(join(directory, 'at a (uri)')).href;
    const { exitCode, stdout, stderr } = await startDemo(...SMALL, '--uri', uri).ended;
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    expect(stdout).toContain(`saves a model of 4 MiB to ${uri}\n`);
    expect(stdout).toMatch(/rm -r \S+ {2,}# removes the exported model; the run stays$/m);
    expect(stdout).toContain(`./bin/holdfast list '${uri}'\n`);
    expect(await readdir(join(directory, 'at a (uri)'))).toContain('catalog');
    const again = await startDemo(...SMALL, '--uri', uri).ended;
    expect(again).toMatchObject({ exitCode: 1, stdout: '' });
    expect(again.stderr).toContain(`${uri} is not empty: give --uri a place where nothing is yet`);
  }, 60_000);

  it('a size it cannot make, an unknown option and a directory in use are refused', async () => {
    await mkdir(join(directory, 'used'));
    await writeFile(join(directory, 'used', 'thesis.txt'), 'the only copy');
    for (const [args, message] of [
      [['--size', '1MB'], /--size 1MB is not a size from 4MiB to 1GiB/],
      [['--steps', '25'], /--steps 25 is not an even number from 20 to 999998/],
      [['--speed', '3'], /Unknown option '--speed'/],
      [['--gcs', '--minio'], /--minio and --gcs are two servers/],
      [['--dir', join(directory, 'used')], /used is not empty/],
      [['--uri', 'memory://demo'], /memory:\/\/demo is the memory of one process, and the demo has several/],
      [
        ['--uri', '/tmp/x'],
        /this takes a URI, and was given a path; write file:\/\/\/tmp\/x \(InvalidConfig\)/,
      ],
      [['--uri', 'ftp://host/x'], /the scheme of the URI is unknown/],
    ] as const) {
      const { exitCode, stdout, stderr } = await startDemo(...args).ended;
      expect(exitCode).toBe(1);
      expect(stdout).toBe('');
      expect(stderr).toMatch(message);
    }
    expect(await readdir(join(directory, 'used'))).toEqual(['thesis.txt']);
  });
});

const SERVERS = [
  { flag: '--minio', scheme: 's3', describeOn: describeOnMinio },
  { flag: '--gcs', scheme: 'gs', describeOn: describeOnFakeGcs },
  { flag: '--azure', scheme: 'az', describeOn: describeOnAzurite },
] as const;

for (const { flag, scheme, describeOn } of SERVERS) {
  describeOn(`demo ${flag}`, {}, () => {
    it('starts a server and saves there; a signal ends the demo, its processes and the server', async () => {
      const demo = startDemo(...SMALL, flag);
      await demo.says(/SIGKILL: process/);
      const processes = descendantsOf(demo.pid);
      expect(processes.length).toBeGreaterThanOrEqual(4); // launcher, server, demo, job
      demo.kill('SIGTERM');
      const { exitCode, stdout } = await demo.ended;
      expect(exitCode).toBe(143);
      expect(stdout).toMatch(/saves a model of 4 MiB to \w+:\/\/\S+endpoint=http%3A%2F%2F127\.0\.0\.1%3A\d+/);
      expect(stdout).toContain(`saves a model of 4 MiB to ${scheme}://`);
      await vi.waitFor(() => expect(processes.filter(isAlive)).toEqual([]), { timeout: 10_000 });
    }, 120_000);
  });
}

describeOnMinio('demo --minio to its end', {}, () => {
  it('tells the same story there; nothing runs any more when it ends', async () => {
    const demo = startDemo(...SMALL, '--minio');
    await demo.says(/version 20: 4 MiB committed/);
    const processes = descendantsOf(demo.pid);
    const { exitCode, stdout, stderr } = await demo.ended;
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    expectWholeStory(stdout);
    expect(stdout).toContain('The MinIO of this demo ends with it');
    await vi.waitFor(() => expect(processes.filter(isAlive)).toEqual([]), { timeout: 10_000 });
  }, 120_000);
});
