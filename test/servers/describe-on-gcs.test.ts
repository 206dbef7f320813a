import { expect, test } from 'vitest';
import { describeOnFakeGcs, describeOnGcs } from './describe-on-gcs.ts';
import { openGcsBucket } from './gcs-access.ts';
import { partsOfBucket } from './test-bucket.ts';

describeOnGcs('a server of GCS for a suite', (server) => {
  test('each place is new', async () => {
    const [one, other] = [await server().newBucket(), await server().newBucket()];
    expect(one.uri).toMatch(/^gs:\/\/[^/]+\/[^?]+/);
    expect(one.uri).not.toBe(other.uri);
  });

  test('through the SDK a key is created once, read, listed in order and taken away with what is below its prefix', async () => {
    const place = await server().newBucket();
    const { prefix } = partsOfBucket(place);
    const view = await openGcsBucket(place);
    const create = (key: string, words: string) => view.create(`${prefix}/${key}`, Buffer.from(words));
    expect(await create('a/2', 'first')).toBe('created');
    expect(await create('a/2', 'second')).toBe('exists');
    expect(await create('a/1', 'other')).toBe('created');
    expect(await create('ab', 'beside')).toBe('created');
    expect(Buffer.from(await view.read(`${prefix}/a/2`)).toString()).toBe('first');
    expect(await view.list(`${prefix}/a/`)).toEqual([`${prefix}/a/1`, `${prefix}/a/2`]);
    await view.deletePrefix(`${prefix}/a/`);
    expect(await view.list(`${prefix}/`)).toEqual([`${prefix}/ab`]);
    await view.deletePrefix(`${prefix}/`);
    view.close();
  });
});

describeOnFakeGcs('a fake-gcs-server of its own', {}, (server) => {
  test('the URI of a place says all that a client needs; no credentials are needed', async () => {
    const { uri, env, endpoint } = await server().newBucket();
    expect(new URL(uri).searchParams.get('endpoint')).toBe(server().endpoint);
    expect(server().endpoint).toBe(`http://127.0.0.1:${server().port}`);
    expect({ env, endpoint }).toEqual({ env: {}, endpoint: server().endpoint });
  });

  test('what cannot be read is an error with the words of the server', async () => {
    const view = await openGcsBucket(await server().newBucket());
    await expect(view.read('none')).rejects.toThrow(/GET of none was answered with 404: ./);
    view.close();
  });
});
