import { openGcsStore } from '@holdfast/store-gcs';
import { storeConformance } from '@holdfast/testkit/vitest';
import { afterAll, beforeAll, describe } from 'vitest';
import { type ScriptedServer, startScriptedServer } from '../scripted/scripted-server.ts';
import { describeOnGcs } from '../servers/describe-on-gcs.ts';
import { BUCKET, FakeGcs } from './fake-gcs.ts';

function opener(uri: string, settings: Readonly<Record<string, string>>, env = {}) {
  const [place, query] = uri.split('?');
  const given = new URLSearchParams({ ...Object.fromEntries(new URLSearchParams(query)), ...settings });
  return { open: () => openGcsStore(`${place}?${given}`, env) };
}

// The default of the URI is `multipart` on the real GCS and `compose` on an emulator.
describeOnGcs('GCS', (server) => {
  describe.each([{}, { uploads: 'single' }])('%o', (settings) => {
    storeConformance(
      `GCS store with ${JSON.stringify(settings)}`,
      async () => {
        const { uri, env } = await server().newBucket();
        return opener(uri, settings, env);
      },
      { timeoutMs: 120_000, hasPrefix: true },
    );
  });
});

describe('a GCS of this process, with uploads in parts', () => {
  let server: (ScriptedServer & { stop(): Promise<void> }) | undefined;
  beforeAll(async () => {
    const fake = new FakeGcs();
    server = await startScriptedServer((request) => fake.answer(request), { keepsRequests: false });
  });
  afterAll(() => server?.stop());

  storeConformance(
    'GCS store, uploads=multipart',
    () => opener(`gs://${BUCKET}?endpoint=${server?.endpoint}`, { uploads: 'multipart' }),
    { timeoutMs: 120_000 },
  );
});
