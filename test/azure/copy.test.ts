import { openAzureStore } from '@holdfast/store-azure';
import { crc32c } from '@holdfast/testkit';
import { expect, it } from 'vitest';
import { describeOnAzure } from '../servers/describe-on-azure.ts';

describeOnAzure('copies inside an account', (server) => {
  it('copyFrom: the store copies by itself, into another container too', async () => {
    const [from, to] = [await server().newBucket(), await server().newBucket()];
    const source = await openAzureStore(from.uri, from.env);
    const target = await openAzureStore(to.uri, to.env);
    const bytes = Buffer.from('some bytes');
    await source.create('a b/ü?', bytes, { crc32c: crc32c(bytes) });
    const copied = await target.copyFrom?.(source, 'a b/ü?', 'copy/1', { sizeBytes: bytes.byteLength });
    expect(copied).toMatchObject({ key: 'copy/1', sizeBytes: bytes.byteLength });
    const found = await target.get('copy/1', { maxBytes: 100 });
    expect(Buffer.from(found.bytes)).toEqual(bytes);
    expect(found.etag).toBe(copied?.etag);
    await expect(
      target.copyFrom?.(source, 'a b/ü?', 'copy/1', { sizeBytes: bytes.byteLength }),
    ).rejects.toMatchObject({ code: 'AlreadyExists' });
    console.log(await target.inspect?.());
    await Promise.all([source.close(), target.close()]);
  });
});
