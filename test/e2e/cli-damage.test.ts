/**
 * The command line with damaged runs: verify and restore. `recover` resolves the outcome of a lost
 * answer.
 */

import { readFile, rm, writeFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { contentOf, holdfast, type Place, recoverToken, savedPlace } from './holdfast-process.ts';

const json = (text: string) => JSON.parse(text);

describe('damage', () => {
  async function damagedPlace(): Promise<Place> {
    const place = await savedPlace(1, 2);
    const key = Object.keys(await contentOf(place.runDirectory)).find((each) =>
      /^version_2\/.*model\.bin$/.test(each),
    );
    const path = `${place.runDirectory}/${key}`;
    const bytes = await readFile(path);
    bytes[100_000] = (bytes[100_000] as number) ^ 1;
    await writeFile(path, bytes);
    return place;
  }

  it('verify names what is damaged, on both streams and in JSON', async () => {
    const place = await damagedPlace();
    const verified = await holdfast(['verify', place.uri]);
    expect(verified.code).toBe(5);
    expect(verified.stdout).toMatch(/^damaged {2,}model\.bin {2,}.*\n$/);
    expect(verified.stderr).toContain(
      'holdfast: version 2 is damaged: 1 of 3 files or their records do not match\n',
    );
    const asJson = json((await holdfast(['verify', place.uri, '--json'])).stdout);
    expect(asJson.problems).toHaveLength(1);
    expect(asJson.error.code).toBe('Corrupt');
    expect((await holdfast(['verify', place.uri, '--level', '0'])).code).toBe(0);
    expect((await holdfast(['verify', place.uri, '--version', '1'])).stdout).toMatch(
      /^verified {2,}version 1 {2,}3 files {2,}294 KiB {2,}.* {2,}every byte\n$/,
    );
  });

  it('restore refuses, says how to fall back, and falls back loudly when told to', async () => {
    const place = await damagedPlace();
    const out = place.path('out');
    const refused = await holdfast(['restore', place.uri, out]);
    expect(refused.code).toBe(5);
    expect(refused.stderr).toContain('holdfast: version 2 is damaged: ');
    expect(refused.stderr).toContain(
      `  nothing was restored\n  \`holdfast restore ${place.uri} ${out} --on-corrupt fallback\` takes the newest version whose bytes all verify\n  (Corrupt, exit 5)`,
    );
    expect(await contentOf(out)).toEqual({});
    const fallen = await holdfast(['restore', place.uri, out, '--on-corrupt', 'fallback', '--quiet']);
    expect(fallen.code).toBe(0);
    expect(fallen.stderr).toContain('holdfast: version 2 is damaged and is skipped: ');
    expect(await contentOf(out)).toEqual(await contentOf(place.path('ckpt')));
    const asJson = json(
      (await holdfast(['restore', place.uri, out, '--replace', '--on-corrupt', 'fallback', '--json'])).stdout,
    );
    expect(asJson).toMatchObject({ version: 1, skipped: [{ version: 2, reason: expect.any(String) }] });
  });

  it('with nothing to fall back to it does not say that there is', async () => {
    const place = await damagedPlace();
    await rm(`${place.runDirectory}/version_1`, { recursive: true });
    const ended = await holdfast(['restore', place.uri, place.path('out'), '--on-corrupt', 'fallback']);
    expect(ended.code).toBe(5);
    expect(ended.stderr).toContain('no checkpoint that verifies is left');
  });
});

describe('recover', () => {
  it.each([
    ['committed', 2, 2, 0, 'version 2: committed\n'],
    ['pending', 2, 9, 75, 'version 9: not committed yet, but it may be\n'],
    ['not-committed', 1, 9, 0, 'version 9: not committed, and never will be\n'],
  ])('%s', async (outcome, epoch, version, code, text) => {
    const place = await savedPlace(1, 2);
    const before = await contentOf(place.runDirectory);
    const given = await recoverToken(place, epoch, version);
    const ended = await holdfast(['recover', place.uri, given]);
    expect(ended.code).toBe(code);
    expect(ended.stdout).toContain(text);
    const asJson = json((await holdfast(['recover', place.uri, given, '--json'])).stdout);
    expect(asJson).toMatchObject({ uri: place.uri, outcome, version, id: { lineage: 1, epoch, version } });
    expect(await contentOf(place.runDirectory)).toEqual(before);
  });

  it('what is no token is refused', async () => {
    const place = await savedPlace(1);
    const ended = await holdfast(['recover', place.uri, 'token']);
    expect(ended.code).toBe(2);
    expect(ended.stderr).toContain('from "hf1-" on');
  });
});
