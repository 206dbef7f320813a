/** Which parts of a directory are saved, and where a run may begin. */

import { symlink } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import {
  contentOf,
  FILES,
  holdfast,
  newPlace,
  savedPlace,
  underMounts,
  writeFiles,
} from './holdfast-process.ts';

describe('what of a directory is saved', () => {
  it('a cache of Hugging Face, whose files are links, without its locks', async () => {
    const place = await newPlace();
    await writeFiles(place, 'hub/blobs', { abc: 'weights', def: '{}' });
    await writeFiles(place, 'hub/snapshots/main', { 'refs.lock': '' });
    await symlink('../../blobs/abc', place.path('hub/snapshots/main/model.safetensors'));
    await symlink('../../blobs/def', place.path('hub/snapshots/main/config.json'));
    const save = (...options: string[]) =>
      holdfast(['save', place.path('hub/snapshots/main'), place.uri, ...options]);
    expect((await save()).stderr).toContain('is a symbolic link; follow or skip links');
    expect((await save('--links', 'follow', '--exclude', '**/*.lock')).code).toBe(0);
    expect((await holdfast(['restore', place.uri, place.path('out')])).code).toBe(0);
    expect(Object.keys(await contentOf(place.path('out'))).sort()).toEqual([
      'config.json',
      'model.safetensors',
    ]);
    expect((await save('--links', 'skip', '--exclude', 'refs.lock')).stderr).toContain('not excluded');
  });

  it('what only a directory has goes with none of several files', async () => {
    const place = await newPlace();
    const source = await writeFiles(place, 'ckpt', FILES);
    const { code, stderr } = await holdfast([
      'save',
      place.path(`ckpt/${Object.keys(FILES)[0]}`),
      place.uri,
      '--exclude',
      'x',
    ]);
    expect([code, stderr]).toEqual([2, expect.stringContaining('`exclude` and `links` need `dir`')]);
    for (const glob of ['', '!a', ' '])
      expect((await holdfast(['save', source, place.uri, `--exclude=${glob}`])).code).toBe(2);
  });
});

describe('a place with several runs', () => {
  it('list names them; a first save there says so, and goes on with --force', async () => {
    const place = await savedPlace(1);
    const source = place.path('ckpt');
    const above = place.uri.replace(/\/[^/]+$/, '');
    const name = place.uri.slice(above.length + 1);
    const listed = await holdfast(['list', above]);
    expect([listed.code, listed.stderr]).toEqual([6, expect.stringContaining(`below it are ${name}\n`)]);
    expect(listed.stderr).toContain('runs below this URI');
    const inside = `${place.uri}/other`;
    const refused = await holdfast(['save', source, inside]);
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('lies in the run')]);
    expect(refused.stderr).toContain('--force begins a run here nevertheless');
    expect((await holdfast(['save', source, inside, '--force'])).code).toBe(0);
  });
});

/**
 * `as_root` runs a script under another root. That root contains the real one's content, and new
 * names in it do not change the real root.
 */
const NEW_ROOT = `mkdir root && mount -t tmpfs none root
  for each in /*; do
    if [ -L "$each" ]; then cp -P "$each" root/
    elif [ -d "$each" ]; then mkdir "root$each" && mount --rbind "$each" "root$each"
    fi
  done
  export -f holdfast; as_root() { chroot root bash -ec "$1"; };`;

it('right below the root, as in a container: the run, what is saved and what is restored', async () => {
  const place = await newPlace();
  const script = `${NEW_ROOT}
    as_root 'mkdir /holdfast-model && echo weights > /holdfast-model/w
      holdfast save /holdfast-model file:///holdfast-run --version 1 --quiet
      holdfast restore file:///holdfast-run /holdfast-back --quiet
      holdfast restore file:///holdfast-run /holdfast-back --replace --quiet
      cat /holdfast-back/w
      ls -A / | grep made-0'`;
  expect(await underMounts(place.directory, script)).toEqual({
    code: 0,
    stdout: expect.stringMatching(/^weights\n\.holdfast-back\.holdfast-\S+\.made-0\n$/),
    stderr: '',
  });
});
