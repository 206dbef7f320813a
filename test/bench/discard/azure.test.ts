import type { ContainerClient } from '@azure/storage-blob';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { azureClient } from '../../servers/azure-access.ts';
import { MIB, ROTATION_BYTES } from '../s3/shapes.ts';
import { contents, startForTest } from './fixture.ts';
import type { DiscardServer } from './process.ts';

let server: DiscardServer;
let container: ContainerClient;

beforeAll(async () => {
  server = await startForTest('azure');
  const key = Buffer.from('any').toString('base64');
  const client = azureClient({ account: 'bench', key, endpoint: `${server.endpoint}/bench` });
  container = client.getContainerClient('runs');
});

afterAll(() => server.close());

const LARGE = { rotationBytes: 5 * ROTATION_BYTES, startBytes: 0, endBytes: 12 * MIB };

test('discarding server, Azure: blocks become one blob in the order of their list, and any range of it is given back', async () => {
  const blob = container.getBlockBlobClient('large');
  const block = (index: number) =>
    contents({ ...LARGE, startBytes: index * 6 * MIB, endBytes: (index + 1) * 6 * MIB });
  const ids = [0, 1].map((index) => Buffer.from(`block-${index}`).toString('base64'));
  for (const index of [1, 0]) await blob.stageBlock(ids[index] ?? '', block(index), 6 * MIB);
  const { uncommittedBlocks } = await blob.getBlockList('uncommitted');
  expect(uncommittedBlocks?.map(({ size }) => size)).toEqual([6 * MIB, 6 * MIB]);
  await blob.commitBlockList(ids, { metadata: { crc32c: 'abc' } });
  const properties = await blob.getProperties();
  expect(properties).toMatchObject({ contentLength: 12 * MIB, metadata: { crc32c: 'abc' } });
  expect((await blob.downloadToBuffer()).equals(contents(LARGE))).toBe(true);
  const some = await blob.downloadToBuffer(7_000_000, 100);
  expect(some.equals(contents({ ...LARGE, startBytes: 7_000_000, endBytes: 7_000_100 }))).toBe(true);
});

test('discarding server, Azure: a list of blocks that are not there is refused', async () => {
  const blob = container.getBlockBlobClient('none');
  await expect(blob.commitBlockList(['YQ=='])).rejects.toMatchObject({ code: 'InvalidBlockList' });
});

test('discarding server, Azure: small blobs are kept, created once if asked, listed and deleted', async () => {
  const blob = container.getBlockBlobClient('small/a b');
  const create = () => blob.upload('text', 4, { conditions: { ifNoneMatch: '*' } });
  await create();
  await expect(create()).rejects.toMatchObject({ code: 'BlobAlreadyExists' });
  await container.getBlockBlobClient('small/b').upload('other', 5);
  const pages = [];
  const listed = container.listBlobsFlat({ prefix: 'small/' }).byPage({ maxPageSize: 1 });
  for await (const { segment } of listed) pages.push(segment.blobItems.map(({ name }) => name));
  expect(pages).toEqual([['small/a b'], ['small/b']]);
  await blob.delete();
  await expect(blob.getProperties()).rejects.toMatchObject({ statusCode: 404 });
});
