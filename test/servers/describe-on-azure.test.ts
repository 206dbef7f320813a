import { AccountSASPermissions } from '@azure/storage-blob';
import { expect, test } from 'vitest';
import { azureClientOf, openAzureContainer } from './azure-access.ts';
import { describeOnAzure, describeOnAzurite } from './describe-on-azure.ts';
import { partsOfBucket } from './test-bucket.ts';

describeOnAzure('a server of Azure for a suite', (server) => {
  test('each place is new', async () => {
    const [one, other] = [await server().newBucket(), await server().newBucket()];
    expect(one.uri).toMatch(/^az:\/\/[^/]+\/[^/]+\/[^?]+/);
    expect(one.uri).not.toBe(other.uri);
  });

  test('through the SDK a key is created once, read, listed in order and taken away with what is below its prefix', async () => {
    const place = await server().newBucket();
    const { prefix } = partsOfBucket(place);
    const view = await openAzureContainer(place);
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

describeOnAzurite('an Azurite of its own', {}, (server) => {
  test('the URI and the environment of a place say all that a client needs', async () => {
    const { uri, env, endpoint } = await server().newBucket();
    const { account, key, port } = server();
    expect(uri.startsWith(`az://${account}/`)).toBe(true);
    expect(new URL(uri).searchParams.get('endpoint')).toBe(server().endpoint);
    expect(server().endpoint).toBe(`http://127.0.0.1:${port}/${account}`);
    expect({ env, endpoint }).toEqual({
      env: { AZURE_STORAGE_ACCOUNT: account, AZURE_STORAGE_KEY: key },
      endpoint: server().endpoint,
    });
  });

  test('the account has a key of its own, and no other is taken', async () => {
    const place = await server().newBucket();
    const env = { ...place.env, AZURE_STORAGE_KEY: Buffer.from('another key').toString('base64') };
    const view = await openAzureContainer({ ...place, env });
    await expect(view.list('')).rejects.toMatchObject({ statusCode: 403 });
    view.close();
  });

  test('a place is looked into with a key, a connection string or a SAS, and without any it is said which', async () => {
    const { account, key, endpoint } = server();
    const place = await server().newBucket();
    const connection = `DefaultEndpointsProtocol=http;AccountName=${account};AccountKey=${key};BlobEndpoint=${endpoint};`;
    const sas = new URL(
      azureClientOf(place).generateAccountSasUrl(undefined, AccountSASPermissions.parse('rwdl'), 'sco'),
    ).search;
    for (const env of [
      place.env,
      { AZURE_STORAGE_CONNECTION_STRING: connection },
      { AZURE_STORAGE_SAS_TOKEN: sas },
    ]) {
      const view = await openAzureContainer({ ...place, env });
      expect(await view.list('')).toEqual([]);
      view.close();
    }
    await expect(openAzureContainer({ ...place, env: {} })).rejects.toThrow(
      'AZURE_STORAGE_SAS_TOKEN; set one',
    );
  });
});
