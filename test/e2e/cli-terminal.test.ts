/** The command line at a terminal, in a pipe, and when it is interrupted. */

import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { contentOf, HOLDFAST, holdfast, newPlace, type Place, run, writeFiles } from './holdfast-process.ts';

const ESCAPE = '\u001b';

const quoted = (words: readonly string[]) => words.map((word) => `'${word}'`).join(' ');

/** The same command line in a pseudo terminal of 100 columns. Both streams arrive as one text. */
function atTerminal(args: readonly string[], env: Record<string, string> = {}) {
  const command = `stty cols 100 rows 30; exec ${quoted([...HOLDFAST, ...args])}`;
  return run(['script', '--quiet', '--return', '--command', command, '/dev/null'], {
    env: { TERM: 'xterm-256color', SHELL: '/bin/sh', ...env },
  });
}

async function placeWithFiles(): Promise<Place> {
  const place = await newPlace();
  await writeFiles(place, 'ckpt', { 'a.bin': Buffer.alloc(3_000_000, 1), 'b.bin': 'b' });
  return place;
}

describe('terminal', () => {
  it('a save draws bars in place and ends with one line', async () => {
    const place = await placeWithFiles();
    const { code, stdout } = await atTerminal(['save', place.path('ckpt'), place.uri]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/version 0 → \S+ {2,}writer 0 of 1 · epoch 1/);
    expect(stdout).toMatch(/ {2,}a\.bin {2,}/);
    const cells = [`${ESCAPE}[32mcommitted${ESCAPE}[39m`, 'version 0', '2.9 MiB in 2 files'];
    expect(stdout.replace(/ {2,}/g, '|')).toContain(cells.join('|'));
    expect(stdout.trimEnd()).toMatch(/ latest[^a-z0-9]*(\[\?25h)?$/);
  });

  it('while it waits the line moves, and the cursor is back in the end', async () => {
    const place = await placeWithFiles();
    const args = [
      'save',
      place.path('ckpt'),
      place.uri,
      '--version',
      '1',
      '--writer',
      '0/2',
      '--attempt',
      'a',
      '--timeout',
      '3s',
    ];
    const { code, stdout } = await atTerminal(args);
    expect(code).toBe(3);
    const seconds = new Set(
      [...stdout.matchAll(/waiting for writer 1 of 2 {2,}(\d) s/g)].map((match) => match[1]),
    );
    expect(seconds.size).toBeGreaterThanOrEqual(2);
    expect(stdout.lastIndexOf(`${ESCAPE}[?25h`)).toBeGreaterThan(stdout.lastIndexOf(`${ESCAPE}[?25l`));
    expect(stdout).toContain(`${ESCAPE}[31mholdfast:${ESCAPE}[39m version 1 is not complete`);
  });

  it.each([
    ['--no-color', ['--no-color'], {}],
    ['NO_COLOR', [], { NO_COLOR: '1' }],
  ])('%s: no colour', async (_, flags, env) => {
    const place = await placeWithFiles();
    const { code, stdout } = await atTerminal(['save', place.path('ckpt'), place.uri, ...flags], env);
    expect(code).toBe(0);
    expect(stdout).toContain('committed  version 0');
    expect(stdout).not.toMatch(new RegExp(`${ESCAPE}\\[[0-9;]*m`));
  });

  it('a dumb terminal gets plain lines', async () => {
    const place = await placeWithFiles();
    const { stdout } = await atTerminal(['save', place.path('ckpt'), place.uri], { TERM: 'dumb' });
    expect(stdout).toContain('committed  version 0');
    expect(stdout).not.toContain(ESCAPE);
  });

  it('--quiet draws nothing', async () => {
    const place = await placeWithFiles();
    expect(await atTerminal(['save', place.path('ckpt'), place.uri, '--quiet'])).toMatchObject({
      code: 0,
      stdout: '',
    });
  });
});

describe('pipes', () => {
  it('a reader that has gone is no error', async () => {
    const place = await placeWithFiles();
    await holdfast(['save', place.path('ckpt'), place.uri]);
    for (const reader of ['true', 'head -1']) {
      const ended = await run([
        'bash',
        '-c',
        `${quoted([...HOLDFAST, 'show', place.uri])} | ${reader} >/dev/null; echo "\${PIPESTATUS[0]}"`,
      ]);
      expect(ended).toEqual({ code: 0, stdout: '0\n', stderr: '' });
    }
  });

  it('a save commits, also if its messages or its result cannot be written', async () => {
    const place = await placeWithFiles();
    const save = (version: number, redirection: string) => {
      const words = [...HOLDFAST, 'save', place.path('ckpt'), place.uri, '--version', `${version}`];
      return run(['bash', '-c', `${quoted(words)} ${redirection}`]);
    };
    expect(await save(1, '2>/dev/full')).toMatchObject({ code: 0, stderr: '' });
    expect(await save(2, '2>/dev/full --progress json')).toMatchObject({ code: 0 });
    const unsaid = await save(3, '>/dev/full --quiet --json');
    expect(unsaid).toMatchObject({ code: 1, stdout: '' });
    expect(unsaid.stderr).toContain(
      'holdfast: standard output cannot be written: ENOSPC: no space left on device, write\n  the command itself has succeeded\n',
    );
    expect((await holdfast(['latest', place.uri])).stdout).toContain('3');
  });

  it('--progress json writes one event per line, and the result stays on standard output', async () => {
    const place = await placeWithFiles();
    const ended = await holdfast(['save', place.path('ckpt'), place.uri, '--progress', 'json', '--json']);
    const events = ended.stderr
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(events.map((event) => event.type)).toEqual(
      expect.arrayContaining(['joined', 'planned', 'bytes', 'committed']),
    );
    expect(events.find((event) => event.type === 'planned')).toMatchObject({
      version: 0,
      fileCount: 2,
      sizeBytes: 3_000_001,
    });
    const done = events.filter((event) => event.type === 'bytes' && event.doneBytes === event.totalBytes);
    expect(done.map((event) => event.name).sort()).toEqual(['a.bin', 'b.bin']);
    expect(JSON.parse(ended.stdout).isCommitted).toBe(true);
  });
});

describe('--log json', () => {
  const linesOf = (text: string) =>
    text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));

  it('each line of standard error is an object, also if the result is lost', async () => {
    const place = await placeWithFiles();
    const saved = await holdfast(['save', place.path('ckpt'), place.uri, '--log', 'json']);
    expect(saved.stdout).toMatch(/^committed /);
    expect(linesOf(saved.stderr)).toMatchObject([
      { level: 'info', message: expect.stringMatching(/^version 0 → file:/) },
    ]);
    const failed = await holdfast(['latest', `${place.uri}-none`, '--log', 'json']);
    expect(linesOf(failed.stderr)).toMatchObject([{ level: 'error', code: 'NotFound', exitCode: 6 }]);
    const words = [...HOLDFAST, 'save', place.path('ckpt'), place.uri, '--version', '3', '--log=json'];
    const unsaid = await run(['bash', '-c', `${quoted(words)} --quiet >/dev/full --json`]);
    expect(unsaid.code).toBe(1);
    expect(linesOf(unsaid.stderr).at(-1)).toMatchObject({
      level: 'error',
      message: expect.stringMatching(/^standard output cannot be written: ENOSPC/),
    });
  });
});

describe('interrupts', () => {
  async function interruptWaiting(signal: NodeJS.Signals) {
    const place = await placeWithFiles();
    let sent = false;
    const args = [
      'save',
      place.path('ckpt'),
      place.uri,
      '--version',
      '1',
      '--writer',
      '0/2',
      '--attempt',
      'a',
    ];
    const ended = await holdfast(args, {
      onStderr: (text, kill) => {
        if (sent || !text.includes('delivered')) return;
        sent = true;
        kill(signal);
      },
    });
    return { place, ended };
  }

  it.each(['SIGINT', 'SIGTERM'] as const)(
    '%s once ends cleanly, and says of what was delivered that it may still be committed',
    async (signal) => {
      const { place, ended } = await interruptWaiting(signal);
      expect(ended.code).toBe(75);
      expect(ended.stdout).toBe('');
      expect(ended.stderr).toContain('holdfast: ending cleanly; press Ctrl-C again to end at once\n');
      expect(ended.stderr).toContain(
        'holdfast: interrupted; version 1 is not committed, but still can be: `commit` settles it once all writers have delivered\n  your files are safe in the store\n',
      );
      expect(ended.stderr).toContain(
        `\`holdfast commit ${place.uri} --version 1\` finishes it once every writer has delivered\n`,
      );
      expect(ended.stderr).toMatch(/ hf1-\S+` prints the outcome\n {2}\(OutcomeUnknown, exit 75\)\n$/);
      const other = await writeFiles(place, 'other', { 'c.bin': 'c' });
      const rest = await holdfast([
        'save',
        other,
        place.uri,
        '--version',
        '1',
        '--writer',
        '1/2',
        '--attempt',
        'a',
      ]);
      expect(rest.code).toBe(0);
      expect((await holdfast(['verify', place.uri])).code).toBe(0);
    },
  );

  it('a restore that is interrupted leaves nothing at its destination', async () => {
    const place = await newPlace();
    await writeFiles(place, 'ckpt', { 'a.bin': Buffer.alloc(256 * 1024 * 1024, 1) });
    await holdfast(['save', place.path('ckpt'), place.uri]);
    await run(['mkdir', place.path('to')]);
    const args = [
      'restore',
      place.uri,
      place.path('to/out'),
      '--concurrency',
      '1',
      '--buffer',
      '16MiB',
      '--progress',
      'json',
    ];
    let sent = false;
    const ended = await holdfast(args, {
      onStderr: (text, kill) => {
        if (sent || !text.includes('"type":"bytes"')) return;
        sent = true;
        kill('SIGINT');
      },
    });
    expect(ended.code).toBe(130);
    expect(ended.stderr).toContain('nothing was written to ');
    expect(await contentOf(place.path('to'))).toEqual({});
  });

  it('twice ends at once, whatever is under way', async () => {
    const interrupt = fileURLToPath(new URL('../../packages/cli/src/interrupt.ts', import.meta.url));
    const script = `import { listenForInterrupt } from '${interrupt}';
      listenForInterrupt(() => console.error('first'));
      setInterval(() => {}, 1000); // something that does not end by itself
      console.error('ready');`;
    let sent = 0;
    const ended = await run(
      [process.execPath, '--conditions=holdfast-source', '--input-type=module', '--eval', script],
      {
        onStderr: (text, kill) => {
          if ((sent === 0 && text.includes('ready')) || (sent === 1 && text.includes('first'))) {
            // Two within half a second are one stop.
            setTimeout(() => kill('SIGINT'), sent * 700);
            sent += 1;
          }
        },
      },
    );
    expect(sent).toBe(2);
    expect(ended.code).toBe(130);
  });
});
