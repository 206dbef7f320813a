/** The ElasticDL commands as processes: what an interrupt leaves, and files in a bucket. */

import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { openStore } from '@holdfast/stores';
import { describe, expect, test } from 'vitest';
import { sampleFiles, writeFiles } from '../elasticdl/sample-files.ts';
import { S3 } from '../servers/clouds.ts';
import { holdfast, newPlace } from './holdfast-process.ts';

describe('holdfast elasticdl', () => {
  test('interrupted, a version is not there, nor anything half written of it', async () => {
    const place = await newPlace();
    const from = place.path('version-100');
    await writeFiles(from, sampleFiles({ version: 100, count: 1, dim: 2_000_000 }));
    const out = place.path('out');
    let isInterrupted = false;
    const ended = await holdfast(['elasticdl', 'repartition', from, out, '--to', '3'], {
      onStderr: (text, kill) => {
        if (isInterrupted || !text.includes('1 → 3 shards')) return;
        isInterrupted = true;
        kill('SIGINT');
      },
    });
    expect(ended.code).toBe(130);
    expect(ended.stderr).toContain(`nothing was written to ${join(out, 'version-100')}`);
    expect(await readdir(out)).toEqual([]);
  }, 60_000);
});

S3.describeOn('holdfast elasticdl on a bucket', (server) => {
  test('what lies below a prefix is found by its URI, and one shard of it by its own', async () => {
    const { uri, env } = await server().newBucket();
    const store = await openStore(uri, env);
    const files = sampleFiles({ version: 100, count: 2 });
    for (const [name, bytes] of Object.entries(files)) await store.create(`version-100/${name}`, bytes);
    await store.close();
    const [prefix, settings = ''] = uri.split('?');
    const shard = `${prefix?.replace(/\/$/, '')}/version-100/variables-1-of-2.ckpt?${settings}`;
    const inspect = async (from: string) => {
      const { code, stdout, stderr } = await holdfast(['elasticdl', 'inspect', from, '--json'], {
        env: { ...env },
      });
      expect([code, stderr]).toEqual([0, '']);
      return JSON.parse(stdout);
    };
    const whole = await inspect(uri);
    expect(whole).toMatchObject({ version: 100, modelVersion: 100, tables: [{ rowCounts: [5, 5] }] });
    const one = await inspect(shard);
    expect(one.shards).toEqual([whole.shards[1]]);
  }, 60_000);
});
