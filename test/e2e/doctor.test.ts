/** `holdfast doctor` as a process: what it prints, where, and what it leaves behind. */

import { readdir, writeFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { contentOf, HOLDFAST, holdfast, newPlace, run, savedPlace } from './holdfast-process.ts';

describe('doctor', () => {
  it('a directory is safe: a line for each check, the verdict last, and nothing is left', async () => {
    const place = await savedPlace(1);
    const before = await contentOf(place.runDirectory);
    const { code, stdout, stderr } = await holdfast(['doctor', place.uri]);
    expect(stderr).toMatch(
      /^checking file:\S+\n {2}below doctor-[0-9a-f]{16}\/, which is removed at the end\n$/,
    );
    expect(code).toBe(0);
    const lines = stdout.trimEnd().split('\n');
    // The directory for temporary files may be volatile or full, and then its check reports that.
    const notOk = lines.slice(0, -1).filter((line) => /^\S/.test(line) && !line.startsWith('ok '));
    expect(notOk.filter((line) => !/^degraded {2,}(file system|room) /.test(line))).toEqual([]);
    expect(stdout).toMatch(/^ok {2,}durability {2,}every write is synced$/m);
    expect(lines.at(-1)).toMatch(/^safe for checkpoints {2,}24 checks {2,}\d/);
    expect(stdout).toMatch(/^ok {2,}race to create {2,}10 rounds of 32 and \d+ of 4: one winner each$/m);
    expect(stdout).toMatch(/^ok {2,}throughput .*\/s up, .*\/s down \(\d+ × 8\.0 MiB\)$/m);
    for (const line of lines) expect(line.length).toBeLessThan(80);
    expect(await contentOf(place.runDirectory)).toEqual(before);
    expect((await readdir(place.runDirectory)).filter((name) => name.startsWith('doctor'))).toEqual([]);
  });

  it('--json: the fields as documented; --quick leaves the throughput out', async () => {
    const place = await newPlace();
    const { code, stdout, stderr } = await holdfast(['doctor', place.uri, '--quick', '--json', '--quiet']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const json = JSON.parse(stdout);
    expect(json).toEqual({
      uri: place.uri,
      verdict: 'safe',
      prefix: expect.stringMatching(/^doctor-[0-9a-f]{16}\/$/),
      checks: expect.any(Array),
      repeatCount: 0,
      durationMs: expect.any(Number),
    });
    expect(json.checks.map((check: { id: string }) => check.id)).toEqual([
      'reachable',
      'may-list',
      'may-create',
      'may-read',
      'may-delete',
      'create-if-absent',
      'race',
      'empty-object',
      'read-after-write',
      'ranges',
      'listing',
      'multipart',
      'checksums',
      'abort',
      'resume',
      'delete',
      'list-after-delete',
      'clock',
      'file-system',
      'room',
      'durability',
      'round-trip',
      'clean-up',
    ]);
    expect(json.checks[0]).toEqual({
      id: 'reachable',
      title: 'reachable',
      status: 'ok',
      seen: expect.stringMatching(/^first answer after /),
      meaning: '',
      advice: '',
      code: null,
      because: null,
      durationMs: expect.any(Number),
      figures: {},
    });
  });

  it('--quiet prints nothing where all is well; --progress json an event for each check', async () => {
    const args = ['doctor', 'memory://doctor', '--quick'];
    expect(await holdfast([...args, '--quiet'])).toEqual({ code: 0, stdout: '', stderr: '' });
    const { stderr } = await holdfast([...args, '--progress', 'json']);
    const events = stderr
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(events.filter(({ type }) => type === 'check')).toHaveLength(21);
    expect(events.find(({ id }) => id === 'race')).toMatchObject({ type: 'check', status: 'ok' });
  });

  it('a URI that cannot be right is no finding: exit 2, and nothing was checked', async () => {
    const place = await newPlace();
    await writeFile(place.path('file'), '');
    for (const uri of ['ftp://x/y', '/tmp', `file://${place.path('file')}`]) {
      const { code, stdout, stderr } = await holdfast(['doctor', uri]);
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
      expect(stderr).toContain('(InvalidConfig, exit 2)');
    }
  });

  it('a check that takes too long fails and names its time: exit 75; what needs it is not run', async () => {
    const place = await newPlace();
    const { code, stdout, stderr } = await holdfast(['doctor', place.uri, '--timeout', '1ms', '--no-color']);
    expect(code).toBe(75);
    expect(stdout).toMatch(/^failed {2,}.* {2,}not done within 1 ms$/m);
    expect(stdout).toMatch(/^not run {2,}.* needs? "/m);
    expect(stdout).toMatch(/^not known to be safe for checkpoints {2,}/m);
    expect(stderr).toMatch(/\(TimedOut, exit 75\)\n$/);
  });

  it('at a terminal of 80 columns no line is longer, and the cursor is back in the end', async () => {
    const command = `stty cols 80 rows 24; exec ${HOLDFAST.join(' ')} doctor memory://terminal --quick`;
    const { code, stdout } = await run(['script', '--quiet', '--return', '--command', command, '/dev/null'], {
      env: { TERM: 'xterm-256color', SHELL: '/bin/sh' },
    });
    expect(code).toBe(0);
    expect(stdout).toContain('\u001b[32msafe for checkpoints\u001b[39m');
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is taken out
    const plain = stdout.replace(/\u001b\[[?0-9;]*[A-Za-z]/g, '').split(/\r?\n/);
    for (const line of plain) expect(line.length).toBeLessThan(80);
    expect(stdout.lastIndexOf('\u001b[?25h')).toBeGreaterThanOrEqual(stdout.lastIndexOf('\u001b[?25l'));
  });

  it.each(['SIGINT', 'SIGTERM'] as const)('%s: everything is removed, exit 130', async (signal) => {
    const place = await newPlace();
    let isSent = false;
    const { code, stderr } = await holdfast(['doctor', place.uri, '--progress', 'json'], {
      onStderr: (text, kill) => {
        if (isSent || !text.includes('"id":"create-if-absent"')) return;
        isSent = true; // in the middle of the race
        kill(signal);
      },
    });
    expect(code).toBe(130);
    const events = stderr
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(events.filter(({ type }) => type === 'check').at(-1)).toMatchObject({
      id: 'clean-up',
      status: 'ok',
    });
    expect(events.at(-1)).toMatchObject({ type: 'error', error: { code: 'Aborted' } });
    expect(await contentOf(place.runDirectory)).toEqual({});
  });
});
