/**
 * `holdfast certify` as a process: what it prints and writes, and that it leaves nothing behind.
 */

import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { contentOf, holdfast, newPlace, savedPlace, underMounts } from './holdfast-process.ts';

const TEST_TIMEOUT_MS = 60_000;

describe('certify', () => {
  it(
    'a directory: a line for each group, the verdict, a certificate in a file; the run is as it was',
    async () => {
      const place = await savedPlace(1);
      const before = await contentOf(place.runDirectory);
      const path = place.path('certificate.json');
      const { code, stdout, stderr } = await holdfast(['certify', place.uri, '--output', path]);
      expect(stderr).toMatch(
        /^certifying file:\S+\n {2}below certify-[0-9a-f]{16}\/, which is removed at the end\n(checking .*\n)*$/,
      );
      expect(code, stdout).toBe(0);
      expect(stdout).toMatch(/^ok {2,}may delete\n/m);
      expect(stdout).toMatch(/^ok {2,}races {2,}2 promises {2,}\d/m);
      expect(stdout).toMatch(/^ok {2,}clean up {2,}nothing is left below certify-/m);
      const lines = stdout.trimEnd().split('\n');
      for (const line of lines.slice(0, -1)) expect(line.length).toBeLessThan(80);
      expect(lines.slice(-2)).toEqual([
        expect.stringMatching(/^certified {2,}\d+ promises {2,}\d/),
        `certificate in ${path}`,
      ]);
      const certificate = JSON.parse(await readFile(path, 'utf8'));
      expect(certificate).toMatchObject({
        certificate: 'holdfast-store',
        formatVersion: 1,
        holdfastVersion: expect.any(String),
        uri: place.uri,
        verdict: 'certified',
        capabilities: { verifiesChecksums: false },
        clock: { skewMs: expect.any(Number), errorMs: expect.any(Number) },
        failedCount: 0,
        notRunCount: 0,
      });
      expect(certificate.checks).toHaveLength(certificate.passedCount);
      expect(await contentOf(place.runDirectory)).toEqual(before);
      expect((await readdir(place.runDirectory)).filter((name) => name.startsWith('certify'))).toEqual([]);
    },
    TEST_TIMEOUT_MS,
  );

  it(
    '--json prints the certificate; --quiet nothing where all is well; --progress json an event for each promise',
    async () => {
      const { code, stdout, stderr } = await holdfast(['certify', 'memory://c', '--json', '--quiet']);
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      const certificate = JSON.parse(stdout);
      expect(certificate.verdict).toBe('certified');
      const args = ['certify', 'memory://c', '--quiet', '--progress', 'json'];
      const events = await holdfast(args);
      expect(events.stdout).toBe('');
      const promises = events.stderr
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line))
        .filter(({ type }) => type === 'promise');
      expect(promises.map(({ name }) => name)).toEqual(
        certificate.checks.map(({ name }: { name: string }) => name),
      );
    },
    TEST_TIMEOUT_MS,
  );

  it('a file that is there is refused before anything is done: exit 7; a wrong URI or place: exit 2', async () => {
    const place = await newPlace();
    const path = place.path('certificate.json');
    await writeFile(path, 'mine');
    const { code, stdout, stderr } = await holdfast(['certify', place.uri, '--output', path]);
    expect({ code, stdout }).toEqual({ code: 7, stdout: '' });
    expect(stderr).toContain('pass --replace');
    expect(await readFile(path, 'utf8')).toBe('mine');
    const nowhere = await holdfast(['certify', place.uri, '--output', place.path('missing/c.json')]);
    expect(nowhere.code).toBe(2);
    expect((await holdfast(['certify', 'ftp://x/y'])).code).toBe(2);
    expect(await contentOf(place.runDirectory)).toEqual({});
  });

  it('a directory that may not be written: exit 8, no promise is tried, and the certificate says so', async () => {
    const place = await savedPlace(1);
    const path = place.path('certificate.json');
    const uri = `file://${place.runDirectory}/run.json`;
    const notADirectory = await holdfast(['certify', uri]);
    expect(notADirectory.code).toBe(2);
    await mkdir(place.path('read-only'));
    const { code, stdout } = await underMounts(
      place.directory,
      'mount -t tmpfs -o ro none read-only; holdfast certify "file://$PWD/read-only" --output certificate.json',
    );
    expect(code, stdout).toBe(8);
    expect(stdout).toMatch(/^cannot be certified {2,}/m);
    const certificate = JSON.parse(await readFile(path, 'utf8'));
    expect(certificate).toMatchObject({ verdict: 'unknown', passedCount: 0, failedCount: 0 });
    expect(certificate.notRunCount).toBe(certificate.checks.length);
  });

  it.each(['SIGINT', 'SIGTERM'] as const)(
    '%s in the middle: everything is removed, exit 130',
    async (signal) => {
      const place = await newPlace();
      let isSent = false;
      const { code, stderr } = await holdfast(['certify', place.uri, '--progress', 'json'], {
        onStderr: (text, kill) => {
          if (isSent || !text.includes('"group":"keys"')) return;
          isSent = true;
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
    },
    TEST_TIMEOUT_MS,
  );
});
