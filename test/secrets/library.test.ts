/**
 * What a program that uses the packages may print: errors with all their properties, stores,
 * settings and managers.
 */

import { inspect } from 'node:util';
import { parseAzureConfig } from '@holdfast/store-azure';
import { parseGcsConfig } from '@holdfast/store-gcs';
import { parseS3Config } from '@holdfast/store-s3';
import { openCheckpointManager, openStore } from '@holdfast/stores';
import { describe, expect, onTestFinished, test } from 'vitest';
import { scriptedServer } from '../scripted/scripted-server.ts';
import { hasten, inEnvironment, loggedForms } from './in-process.ts';
import { Marks } from './marks.ts';
import { PLACES } from './places.ts';

const marks = new Marks();
const inspected = (value: unknown) => inspect(value, { depth: Infinity, showHidden: true, getters: true });

const PARSERS = { S3: parseS3Config, GCS: parseGcsConfig, Azure: parseAzureConfig } as const;

describe.each(PLACES)('$title', (place) => {
  test('errors, stores, settings and managers show no secret, however they are inspected', async () => {
    hasten();
    const server = await scriptedServer(({ target, headers }) => ({
      status: 403,
      body: `<Error><Code>AccessDenied</Code><Message>${target} ${JSON.stringify(headers)}</Message></Error>`,
    }));
    const given = [
      ...(await place.wellFormed(marks, server.endpoint)),
      ...(await place.malformed(marks, server.endpoint)),
    ];
    for (const { name, env, settings } of given) {
      const uri = place.uri(server.endpoint, settings);
      const seen: unknown[] = [];
      await inEnvironment(env, async () => {
        try {
          seen.push(PARSERS[place.title as keyof typeof PARSERS](uri, process.env));
          const store = await openStore(uri, process.env);
          onTestFinished(() => store.close());
          const manager = await openCheckpointManager(uri, {
            env: process.env,
            settings: { retryCountMax: 0 },
          });
          onTestFinished(() => manager.close());
          seen.push(store, manager);
          seen.push(
            await Promise.allSettled([
              store.head('a'),
              store.create('a', Buffer.from('a')),
              manager.latest(),
            ]),
          );
        } catch (error) {
          seen.push(error);
        }
      });
      const results = seen.flat().map((each) => (each as { reason?: unknown }).reason ?? each);
      expect(results.length).toBeGreaterThan(0);
      for (const each of results) expect(marks.foundIn(loggedForms(each, inspected)), name).toEqual([]);
    }
  }, 60_000);
});
