import { openAzureStore } from '@holdfast/store-azure';
import { storeConformance } from '@holdfast/testkit/vitest';
import { afterAll, beforeAll, describe } from 'vitest';
import { startScriptedServer } from '../scripted/scripted-server.ts';
import { describeOnAzure } from '../servers/describe-on-azure.ts';
import { azureMemory } from './azure-memory.ts';
import { ACCOUNT, KEYS } from './scripted-azure.ts';

const OPTIONS = { timeoutMs: 120_000 };

describeOnAzure('Azure', (server) => {
  storeConformance(
    'Azure store',
    async () => {
      const { uri, env } = await server().newBucket();
      return { open: () => openAzureStore(uri, env) };
    },
    { ...OPTIONS, hasPrefix: true },
  );
});

// With listings of many pages, and with directories in them. Azurite has neither.
describe('an Azure of this process, with a hierarchical namespace', () => {
  let server: Awaited<ReturnType<typeof startScriptedServer>> | undefined;
  beforeAll(async () => {
    const memory = azureMemory({ pageSize: 50, isHierarchical: true });
    server = await startScriptedServer((request) => memory.answer(request), { keepsRequests: false });
  });
  afterAll(() => server?.stop());

  storeConformance(
    'Azure store',
    () => {
      const uri = `az://${ACCOUNT.account}/runs?endpoint=${server?.endpoint}`;
      return { open: () => openAzureStore(uri, KEYS) };
    },
    OPTIONS,
  );
});
