/** The stores of `bench scale` beside memory. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ObjectStore } from '@holdfast/core';
import { openStore } from '@holdfast/stores';
import { newAzureContainer } from '../servers/azure-access.ts';
import { startAzurite } from '../servers/azure-server.ts';
import { newGcsBucket } from '../servers/gcs-access.ts';
import { startFakeGcs } from '../servers/gcs-server.ts';
import { newBucketOf } from '../servers/s3-access.ts';
import { startMinio } from '../servers/s3-servers.ts';
import { ADAPTERS } from './adapters/adapters.ts';
import { type DialectName, startDiscardServer } from './discard/process.ts';
import { makePattern } from './s3/shapes.ts';

/** They keep every byte. */
export const REAL_STORES = ['local', 'MinIO', 'fake-gcs-server', 'Azurite'] as const;
const DISCARDING = ['discarding s3', 'discarding gcs', 'discarding azure'] as const;
export const SCALE_STORES = [...REAL_STORES, ...DISCARDING] as const;
export type ScaleStoreName = (typeof SCALE_STORES)[number];

interface ScaleStore {
  readonly open: () => Promise<ObjectStore>;
  readonly stop: () => Promise<unknown>;
}

/** `directory` holds its data, or that of its server. */
export async function startScaleStore(name: ScaleStoreName, directory: string): Promise<ScaleStore> {
  switch (name) {
    case 'local':
      return {
        open: () => openStore(`file://${join(directory, 'run')}`, {}),
        stop: async () => undefined,
      };
    case 'MinIO': {
      const server = await startMinio({ directory });
      return storeOn(server, await newBucketOf(server));
    }
    case 'fake-gcs-server': {
      const server = await startFakeGcs({ directory });
      return storeOn(server, await newGcsBucket(server.endpoint));
    }
    case 'Azurite': {
      const server = await startAzurite({ directory });
      return storeOn(server, await newAzureContainer(server));
    }
    default:
      return startDiscarding(name.replace('discarding ', '') as DialectName, directory);
  }
}

function storeOn(
  { stop }: { readonly stop: () => Promise<unknown> },
  { uri, env }: { readonly uri: string; readonly env: Readonly<Record<string, string>> },
): ScaleStore {
  return { open: () => openStore(uri, env), stop };
}

async function startDiscarding(dialect: DialectName, directory: string): Promise<ScaleStore> {
  const patternPath = join(directory, 'pattern');
  writeFileSync(patternPath, makePattern());
  const server = await startDiscardServer(dialect, patternPath);
  const adapter = ADAPTERS.find(({ name }) => name === dialect);
  if (adapter === undefined) throw new Error(`there is no adapter for ${dialect}`);
  return storeOn({ stop: server.close }, { uri: adapter.uri(server.endpoint, 'run'), env: adapter.env });
}
