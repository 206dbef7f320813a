/** Runs the commands of docs/tutorial.md one after the other, exactly as printed. */

import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { goProgram, MINIO } from '../servers/go-program.ts';
import { freePort } from '../servers/start-server.ts';
import { HOLDFAST, run } from './holdfast-process.ts';

const TUTORIAL = fileURLToPath(new URL('../../docs/tutorial.md', import.meta.url));
const TIMEOUT_MS = 240_000;

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'holdfast-tutorial-'));
});
afterEach(() => rm(directory, { recursive: true }));

/** Its blocks of commands, in order. */
function blocks(): string[] {
  const text = readFileSync(TUTORIAL, 'utf8');
  return [...text.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block]) => block as string);
}

/** The programs that a reader has on the PATH: `holdfast` and `minio`. */
async function programs(): Promise<string> {
  const words = HOLDFAST.map((word) => `'${word}'`).join(' ');
  writeFileSync(join(directory, 'holdfast'), `#!/bin/sh\nexec ${words} "$@"\n`, { mode: 0o755 });
  symlinkSync(await goProgram(MINIO), join(directory, 'minio'));
  return [directory, process.env['PATH']].join(delimiter);
}

it(
  'what is printed there works, in this order, and says what the text says',
  async () => {
    const PATH = await programs();
    const steps = blocks().map((block, index) => `echo "== ${index}"\n${block}`);
    // A failed command ends the script.
    const script = `set -e\ntrap 'kill $MINIO 2>/dev/null || true' EXIT\n${steps.join('\n')}`;
    const port = String(await freePort());
    const { code, stdout, stderr } = await run(['bash', '-c', script.replaceAll('9000', port)], {
      cwd: directory,
      env: { PATH, HOME: directory },
    });
    expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
    const said = stdout.split(/^== \d+\n/m).slice(1);
    const expected = [
      [1, /^committed {2,}version 100 /s],
      [2, /\n +200 .*loss 1\.87.* latest.*\n +100 /s],
      [3, /weights after 200 steps\n$/s],
      [4, /killed\n200\n$/s],
      [5, /committed {2,}version 300 .*\n300\n$/s],
      [7, /^safe for checkpoints /s],
      [8, / 300 .* 200 .* 100 /s],
      [9, /^version +400.*rank-3\.bin/s],
      [10, /writer 3 is missing\n400\n$/s],
      [11, /version 200 is the latest.*\n200\n.*the loss exploded/s],
      [12, /pinned: the paper/s],
      [13, /sound|every byte/s],
    ] as const;
    for (const [index, pattern] of expected) expect(said[index], `step ${index}`).toMatch(pattern);
  },
  TIMEOUT_MS,
);
