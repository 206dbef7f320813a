/**
 * Differences between emulators and the services they stand for, as the table in docs/testing.md
 * lists them. A failing test here is good news: the emulator now behaves like the service. Remove
 * the row and the workaround for it.
 */

import { ListMultipartUploadsCommand } from '@aws-sdk/client-s3';
import { type BlockBlobClient, RestError } from '@azure/storage-blob';
import { openS3Store } from '@holdfast/store-s3';
import { beforeAll, expect, test } from 'vitest';
import { azureClientOf } from './azure-access.ts';
import { describeOnAzurite } from './describe-on-azure.ts';
import { describeOnFakeGcs } from './describe-on-gcs.ts';
import { describeOnMinio } from './describe-on-s3.ts';
import { s3ClientOf } from './s3-access.ts';

describeOnFakeGcs('fake-gcs-server deviates from GCS:', {}, (server) => {
  let bucket: string;
  let bucketUrl: string;
  beforeAll(async () => {
    bucket = (await server().newBucket()).bucket;
    bucketUrl = `${server().endpoint}/storage/v1/b/${bucket}`;
  });

  async function ask(method: string, url: string, wish?: object) {
    const init = wish && { body: JSON.stringify(wish), headers: { 'content-type': 'application/json' } };
    const answer = await fetch(url, { method, ...init });
    return { status: answer.status, text: await answer.text() };
  }

  async function put(name: string, headers: Record<string, string> = {}): Promise<number> {
    const url = `${server().endpoint}/upload/storage/v1/b/${bucket}/o?uploadType=media&name=${name}`;
    const answer = await fetch(url, { method: 'POST', body: 'words', headers });
    await answer.arrayBuffer();
    return answer.status;
  }

  function compose(name: string, ...sources: string[]) {
    const sourceObjects = sources.map((each) => ({ name: each }));
    return ask('POST', `${bucketUrl}/o/${name}/compose?ifGenerationMatch=0`, {
      ...{ sourceObjects, destination: {} },
    });
  }

  test('it has no uploads in parts of the XML API', async () => {
    const { status, text } = await ask('POST', `${server().endpoint}/${bucket}/key?uploads`);
    expect({ status, text }).toEqual({ status: 400, text: expect.stringContaining('invalid uploadType') });
  });

  test('it ignores ifGenerationMatch on a read, a delete, a compose and a rewrite', async () => {
    await put('source');
    await put('there');
    expect(await ask('GET', `${bucketUrl}/o/source?alt=media&ifGenerationMatch=1`)).toMatchObject({
      ...{ status: 200, text: 'words' },
    });
    expect(await compose('there', 'source')).toMatchObject({ status: 200 });
    const rewrite = `${bucketUrl}/o/source/rewriteTo/b/${bucket}/o/there?ifGenerationMatch=0`;
    expect(await ask('POST', rewrite, {})).toMatchObject({ status: 200 });
    expect(await ask('DELETE', `${bucketUrl}/o/there?ifGenerationMatch=1`)).toMatchObject({ status: 200 });
    expect(await ask('GET', `${bucketUrl}/o/there`)).toMatchObject({ status: 404 });
  });

  test('it answers a compose whose source is missing with 500', async () => {
    expect(await compose('whole', 'none')).toMatchObject({ status: 500 });
  });

  test('it tells in plain text that what is to be read is not there', async () => {
    expect(await ask('GET', `${bucketUrl}/o/none?alt=media`)).toEqual({ status: 404, text: 'Not Found\n' });
  });

  test('it does not look at x-goog-hash', async () => {
    expect(await put('wrong', { 'x-goog-hash': 'crc32c=AAAAAA==' })).toBe(200);
  });

  test('it knows no permissions', async () => {
    const url = `${bucketUrl}/iam/testPermissions?permissions=storage.objects.get`;
    expect(await ask('GET', url)).toMatchObject({ status: 404 });
  });
});

describeOnAzurite('Azurite deviates from Azure:', {}, (server) => {
  let blob: BlockBlobClient;
  beforeAll(async () => {
    const place = await server().newBucket();
    blob = azureClientOf(place).getContainerClient(place.bucket).getBlockBlobClient('blob');
  });

  async function refusal(call: Promise<unknown>) {
    const error = await call.then(
      () => new Error('it was not refused'),
      (reason: unknown) => reason,
    );
    if (!(error instanceof RestError)) throw error;
    const { code, statusCode: status } = error;
    return { code, status };
  }

  test('it has a code of its own for a wrong MD5', async () => {
    const wrong = { transactionalContentMD5: new Uint8Array(16) };
    const put = blob.stageBlock(Buffer.from('block').toString('base64'), Buffer.from('words'), 5, wrong);
    expect(await refusal(put)).toEqual({ code: 'InvalidOperation', status: 400 });
  });

  test('it makes no block of a URL', async () => {
    await blob.upload('words', 5);
    const block = Buffer.from('block').toString('base64');
    expect(await refusal(blob.stageBlockFromURL(block, blob.url))).toMatchObject({ status: 501 });
  });

  test('it answers a read of the first byte of an empty blob with 206 and a range of no bytes', async () => {
    await blob.upload('', 0);
    const answer = await blob.download(0, 1);
    expect(answer).toMatchObject({ contentLength: 0, contentRange: 'bytes 0--1/0' });
    expect(answer._response.status).toBe(206);
    // The answer of Azure.
    expect(await refusal(blob.download(0, 2))).toEqual({ code: 'InvalidRange', status: 416 });
  });

  test('it has a code of its own for credentials that it does not know', async () => {
    const place = await server().newBucket();
    const env = { ...place.env, AZURE_STORAGE_KEY: Buffer.from('another').toString('base64') };
    const container = azureClientOf({ ...place, env }).getContainerClient(place.bucket);
    expect(await refusal(container.getProperties())).toEqual({ code: 'AuthorizationFailure', status: 403 });
  });
});

describeOnMinio('MinIO deviates from S3:', {}, (server) => {
  test('it takes the prefix of a listing of uploads for a whole key', async () => {
    const place = await server().newBucket();
    const store = await openS3Store(place.uri, place.env);
    const upload = await store.beginUpload('folder/key', { partSizeBytes: 5 * 1024 * 1024 });
    const client = await s3ClientOf(place);
    const uploadsBelow = async (Prefix: string) => {
      const page = await client.send(new ListMultipartUploadsCommand({ Bucket: place.bucket, Prefix }));
      return page.Uploads?.length ?? 0;
    };
    expect(await uploadsBelow('run/folder/key')).toBe(1);
    expect(await uploadsBelow('run/folder/')).toBe(0);
    await upload.abort();
    await store.close();
    client.destroy();
  });
});
