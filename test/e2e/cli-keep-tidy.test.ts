/**
 * Collection on a local disk and at a terminal: kept versions can be restored, and deleted versions
 * free their bytes.
 */

import { chmod, rm, truncate } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import {
  atTerminal,
  contentOf,
  holdfast,
  newPlace,
  type Place,
  underMounts,
  writeFiles,
} from './holdfast-process.ts';

/** A run whose versions differ in one of two files. */
async function grown(...versions: number[]): Promise<Place> {
  const place = await newPlace();
  for (const version of versions) {
    const files = { 'same.bin': Buffer.alloc(200_000, 1), 'model.bin': Buffer.alloc(100_000, version) };
    const source = await writeFiles(place, 'ckpt', files);
    const saved = await holdfast(['save', source, place.uri, '--version', String(version), '--quiet']);
    if (saved.code !== 0) throw new Error(saved.stderr);
  }
  return place;
}

const payloads = async (place: Place) =>
  Object.keys(await contentOf(place.runDirectory)).filter((key) => key.endsWith('.bin')).length;

describe('gc', () => {
  it('what goes frees its bytes, but not those that another version has too; what is kept is whole', async () => {
    const place = await grown(1, 2, 3, 4);
    // The first repeat of a file is sent again.
    expect(await payloads(place)).toBe(6);
    const listed = await holdfast(['list', place.uri]);
    expect(listed.stdout).toMatch(/\n4 versions · 1.1 MiB, 781 KiB stored\n$/);
    const gc = ['gc', place.uri, '--keep', '1', '--grace', '0', '--apply', '--force'];
    const unnamed = await holdfast([...gc, '--reason', ' ']);
    expect(unnamed.stderr).toContain('1 to 1000 characters, not only spaces');
    expect(unnamed.code).toBe(2);
    const collected = await holdfast([...gc, '--reason', 'the disk is full']);
    expect(collected.stdout).toMatch(/^collected {2,}retired 2, removed 2, deleted \d+ objects, /);
    expect(collected.code).toBe(0);
    const log = await holdfast(['log', place.uri]);
    expect(log.stdout).toContain('the disk is full (no rule keeps it: newest 1');
    expect(log.stdout).toContain('the disk is full (its grace is over)');
    expect(await payloads(place)).toBe(3);
    expect((await holdfast(['restore', place.uri, place.path('out')])).code).toBe(0);
    expect(await contentOf(place.path('out'))).toEqual(await contentOf(place.path('ckpt')));
    expect((await holdfast(['fsck', place.uri])).stdout).toMatch(/^sound {2,}2 versions/m);
  });

  it('makes room on a disk that is full to the last byte', async () => {
    const place = await newPlace();
    await writeFiles(place, 'ckpt', { 'model.bin': Buffer.alloc(1_500_000, 1) });
    const script = `mkdir disk && mount -t tmpfs -o size=12m tmpfs disk
      uri=file://$PWD/disk/run
      for version in 1 2 3 4; do holdfast save ckpt "$uri" --version $version --dedupe off --on-stale off --quiet; done
      dd if=/dev/zero of=disk/filler bs=4096 status=none 2>/dev/null && exit 9
      if holdfast save ckpt "$uri" --dedupe off --on-stale off 2>&1; then exit 8; fi
      holdfast restore "$uri" out --quiet && cmp ckpt/model.bin out/model.bin
      holdfast gc "$uri" --keep 1 --grace 0 --force --apply
      ls -s disk/run/.holdfast-reserve
      holdfast save ckpt "$uri" --version 5 --dedupe off --on-stale off --quiet
      holdfast list "$uri"`;
    const { stdout, code } = await underMounts(place.directory, script);
    expect(stdout).toContain('(StorageFull, exit 75)');
    expect(stdout).toMatch(/collected {2,}retired 2, removed 2, .*\n1024 disk\/run\/\.holdfast-reserve\n/);
    expect([stdout, code]).toEqual([expect.stringMatching(/\n3 versions/), 0]);
  });

  it('at a terminal it shows the plan and asks', async () => {
    const place = await grown(1, 2, 3);
    const args = ['gc', place.uri, '--keep', '2', '--force', '--no-color'];
    const refused = await atTerminal(args, 'n');
    expect(refused.code).toBe(130);
    expect(refused.stdout).toMatch(/retire +1 .* 1\r\n.*do it\? \[y\/N\] .*the answer was no/s);
    const done = await atTerminal(args, 'y');
    expect(done.code).toBe(0);
    expect(done.stdout).toContain('collected  retired 1');
  });

  it('a save with rules leaves the run as they say', async () => {
    const place = await grown(1, 2, 3);
    const args = ['save', place.path('ckpt'), place.uri, '--keep', '2', '--grace', '0', '--on-stale', 'off'];
    expect((await holdfast(args)).code).toBe(0);
    const { checkpoints } = JSON.parse((await holdfast(['list', place.uri, '--json'])).stdout);
    expect(checkpoints.map(({ version }: { version: number }) => version)).toEqual([4, 3]);
  });
});

describe('fsck', () => {
  it('a file that is gone: exit 5, which, and what to do; a lost catalog is written anew without that version', async () => {
    const place = await grown(1, 2);
    const keys = Object.keys(await contentOf(place.runDirectory));
    await rm(`${place.runDirectory}/${keys.find((key) => /^version_1\/.*model\.bin$/.test(key))}`);
    const found = await holdfast(['fsck', place.uri]);
    expect(found.code).toBe(5);
    expect(found.stdout).toMatch(
      /^missing {2,}version 1 .*model\.bin.*\n {2}`holdfast verify .* --quarantine`/,
    );
    expect(found.stderr).toContain('is not sound: 1 finding');

    await rm(`${place.runDirectory}/catalog`, { recursive: true });
    const lost = await holdfast(['fsck', place.uri]);
    expect(lost.code).toBe(5);
    expect(lost.stderr).toContain('--rebuild-catalog');
    const rebuilt = await holdfast(['fsck', place.uri, '--rebuild-catalog', '--apply']);
    expect(rebuilt.code).toBe(0);
    expect(rebuilt.stdout).toMatch(
      /^skipped {2,}version_1\/.*\nrebuilt {2,}1 version: 2 {2,}run [0-9a-f]+, before [0-9a-f]+\n/,
    );
    expect((await holdfast(['restore', place.uri, place.path('out')])).code).toBe(0);
    expect(await contentOf(place.path('out'))).toEqual(await contentOf(place.path('ckpt')));
  });

  it('a manifest that cannot be read stops a rebuild; --skip leaves it out, gc keeps what it may refer to until --release', async () => {
    const place = await grown(1, 2);
    const keysNow = async () => Object.keys(await contentOf(place.runDirectory));
    const key = (await keysNow()).find((each) => /^version_2\/.*manifest-/.test(each)) as string;
    await chmod(`${place.runDirectory}/${key}`, 0o600);
    await truncate(`${place.runDirectory}/${key}`, 100);
    await rm(`${place.runDirectory}/catalog`, { recursive: true });
    const rebuild = ['fsck', place.uri, '--rebuild-catalog', '--apply'];
    const stopped = await holdfast(rebuild);
    expect([stopped.code, stopped.stdout]).toEqual([5, '']);
    expect(stopped.stderr).toContain(key);
    expect(stopped.stderr).toContain('--skip KEY');
    expect((await keysNow()).filter((each) => each.startsWith('catalog/'))).toEqual([]);

    const rebuilt = await holdfast([...rebuild, '--skip', key]);
    expect(rebuilt.code).toBe(0);
    expect(rebuilt.stdout).toContain(`skipped  ${key}`);
    expect(rebuilt.stdout).toContain('1 version: 1');
    expect((await holdfast(['gc', place.uri, '--apply'])).code).toBe(0);
    expect(await keysNow()).toContain(key);
    const { skippedManifests, problems } = JSON.parse((await holdfast(['fsck', place.uri, '--json'])).stdout);
    expect(skippedManifests).toEqual([key]);
    expect(problems).toContainEqual(expect.objectContaining({ kind: 'skipped' }));

    const released = await holdfast(['fsck', place.uri, '--release', key, '--apply', '--json']);
    expect(JSON.parse(released.stdout)).toMatchObject({ uri: place.uri, released: key });
    expect((await holdfast(['gc', place.uri, '--apply'])).code).toBe(0);
    expect((await keysNow()).filter((each) => each.startsWith('version_2/'))).toEqual([]);
  });
});
