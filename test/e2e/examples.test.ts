/** Runs each example, and checks that the README contains exactly the example that runs. */

import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { HOLDFAST, run } from './holdfast-process.ts';
import { Program } from './program.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const EXAMPLES = [
  {
    script: 'examples/save-and-restore.ts',
    first: /^restored 0\.5 -0\.25 2; the latest version is 101\n$/,
    second: /the latest version is 102\n$/,
  },
  {
    script: 'examples/streams.ts',
    first: /^version \d+: read 256000 bytes of embeddings\.bin\n$/,
    second: /^version \d+: read 256000 bytes of embeddings\.bin\n$/,
  },
  {
    script: 'examples/sharded.ts',
    first: /shard-3-of-4\.bin: 4000 bytes of writer 3\nversion 100 of 4 writers\n$/,
    second: /shard-3-of-4\.bin: 4000 bytes of writer 3\nversion 200 of 4 writers\n$/,
  },
  {
    script: 'examples/checkpoint-manager.ts',
    first: /^trained to 30; kept: 2, 1\n$/,
    second: /^trained to 60; kept: 5, 4\n$/,
  },
  {
    script: 'examples/training.ts',
    first: /^step 20: slope 2\.\d+; newest checkpoint 1\n$/,
    second: /^step 40: slope (2\.9|3\.0)\d+; newest checkpoint 3\n$/,
  },
];

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'holdfast-examples-test-'));
});

afterEach(() => rm(directory, { recursive: true }));

describe.each(EXAMPLES)('$script', ({ script, first, second }) => {
  it('runs, and runs again', async () => {
    for (const expected of [first, second]) {
      const { exitCode, stdout, stderr } = await new Program(script, { env: { TMPDIR: directory } }).ended;
      expect(stderr).toBe('');
      expect(stdout).toMatch(expected);
      expect(exitCode).toBe(0);
    }
  });
});

describe('README.md', () => {
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8');

  it('shows examples/save-and-restore.ts as it is', () => {
    expect(/```ts\n(.*?)```/s.exec(readme)?.[1]).toBe(
      readFileSync(join(ROOT, 'examples/save-and-restore.ts'), 'utf8'),
    );
  });

  it('has commands that work when pasted', async () => {
    const commands = /## On the command line\n\n```sh\n(.*?)```/s.exec(readme)?.[1] ?? '';
    for (const name of ['model', 'shard-0', 'shard-1', 'shard-2', 'shard-3']) {
      await mkdir(join(directory, name));
      await writeFile(join(directory, name, `${name}.bin`), name);
    }
    await mkdir(join(directory, 'bin'));
    const launcher = `#!/bin/sh\nexec ${HOLDFAST.map((word) => `'${word}'`).join(' ')} "$@"\n`;
    await writeFile(join(directory, 'bin', 'holdfast'), launcher, { mode: 0o755 });
    const { code, stdout, stderr } = await run(['sh', '-euc', commands], { cwd: directory });
    expect(stderr).toContain('version 100 → ');
    expect(stdout).toMatch(/committed {2,}version 100 .*\n(.*\n)* +100 .* loss 2\.13 .*\n/);
    expect(stdout).toMatch(/restored {2,}version 100 /);
    expect(stdout).toMatch(/^version +200 /m);
    expect(stdout.match(/^shard-\d\.bin /gm)).toHaveLength(4);
    expect(code).toBe(0);
    expect(await readFile(join(directory, 'resume', 'model.bin'), 'utf8')).toBe('model');
  });
});
