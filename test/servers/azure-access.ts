/** Access to an Azure Blob Storage server for tests, through the SDK and past the adapter. */

import { randomBytes } from 'node:crypto';
import {
  BlobServiceClient,
  type ContainerClient,
  type RestError,
  StorageSharedKeyCredential,
} from '@azure/storage-blob';
import { type BucketView, partsOfBucket, type TestBucket } from './test-bucket.ts';

const REQUEST_TIMEOUT_MS = 20_000;
const DELETES_MAX = 32;
const OPTIONS = {
  retryOptions: { maxTries: 1, tryTimeoutInMs: REQUEST_TIMEOUT_MS },
  // Azurite ends a connection that is idle for five seconds, even if a request is on its way.
  keepAliveOptions: { enable: false },
};

/** Endpoint of an account, and its key. */
export interface AzureAccess {
  readonly account: string;
  /** Base64. */
  readonly key: string;
  /** Includes the account as its path, as emulators have it. */
  readonly endpoint: string;
}

/** A client that makes one attempt per request. */
export function azureClient({ account, key, endpoint }: AzureAccess): BlobServiceClient {
  return new BlobServiceClient(endpoint, new StorageSharedKeyCredential(account, key), OPTIONS);
}

export function azureEnv({ account, key }: AzureAccess): Record<string, string> {
  return { AZURE_STORAGE_ACCOUNT: account, AZURE_STORAGE_KEY: key };
}

/** A new container of a server that this process started. */
export async function newAzureContainer(access: AzureAccess): Promise<TestBucket> {
  const bucket = `holdfast-test-${randomBytes(6).toString('hex')}`;
  await azureClient(access).createContainer(bucket);
  const { account, endpoint } = access;
  const query = new URLSearchParams({ endpoint });
  return { uri: `az://${account}/${bucket}/run?${query}`, env: azureEnv(access), bucket, endpoint };
}

/**
 * A client for the account of a place. It uses the connection string, key or SAS, whichever `env`
 * holds.
 */
export function azureClientOf(place: TestBucket): BlobServiceClient {
  const { env } = place;
  const account = partsOfBucket(place).root.split('/')[2] ?? '';
  const endpoint = place.endpoint ?? `https://${account}.blob.core.windows.net`;
  const connection = env['AZURE_STORAGE_CONNECTION_STRING'];
  if (connection) return BlobServiceClient.fromConnectionString(connection, OPTIONS);
  const key = env['AZURE_STORAGE_KEY'];
  if (key) return azureClient({ account, key, endpoint });
  const sas = env['AZURE_STORAGE_SAS_TOKEN'];
  if (sas) return new BlobServiceClient(`${endpoint}?${sas.replace(/^\?/, '')}`, undefined, OPTIONS);
  throw new Error(
    'tests on an account of yours look into it with AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN; set one',
  );
}

/** The container of a place, through the SDK. */
export async function openAzureContainer(place: TestBucket): Promise<BucketView> {
  const container = azureClientOf(place).getContainerClient(place.bucket);
  return {
    create: async (key, bytes) => {
      try {
        const conditions = { conditions: { ifNoneMatch: '*' } };
        await container.getBlockBlobClient(key).upload(bytes, bytes.byteLength, conditions);
        return 'created';
      } catch (error) {
        const { code } = error as RestError;
        if (code === 'BlobAlreadyExists' || code === 'ConditionNotMet') return 'exists';
        throw error;
      }
    },
    list: (prefix) => listKeys(container, prefix),
    read: (key) => container.getBlobClient(key).downloadToBuffer(),
    deletePrefix: async (prefix) => {
      const keys = await listKeys(container, prefix);
      for (let at = 0; at < keys.length; at += DELETES_MAX) {
        const some = keys.slice(at, at + DELETES_MAX);
        await Promise.all(
          some.map((key) => container.getBlobClient(key).deleteIfExists({ deleteSnapshots: 'include' })),
        );
      }
    },
    close: () => undefined,
  };
}

async function listKeys(container: ContainerClient, prefix: string): Promise<string[]> {
  const keys: string[] = [];
  for await (const { name } of container.listBlobsFlat({ prefix })) keys.push(name);
  return keys;
}
