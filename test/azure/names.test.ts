/** Names that Azure changes. */

import { openAzureStore } from '@holdfast/store-azure';
import { expect, onTestFinished, test } from 'vitest';
import { allPages } from '../scripted/scripted-server.ts';
import { openAzureContainer } from '../servers/azure-access.ts';
import { describeOnAzure } from '../servers/describe-on-azure.ts';

const KEYS = ['dir', 'dir.', 'dir./a', 'dir../a.', 'back\\slash', 'back/slash', 'back[slash', 'end\\'];

describeOnAzure('names', (server) => {
  test('a backslash and a dot at the end of a segment come back as they were, and mean no other object', async () => {
    const place = await server().newBucket();
    const store = await openAzureStore(place.uri, place.env);
    onTestFinished(() => store.close());
    for (const key of KEYS) await store.create(key, Buffer.from(key));
    for (const key of KEYS) {
      const { bytes } = await store.get(key, { maxBytes: 100 });
      expect(Buffer.from(bytes).toString()).toBe(key);
    }
    const sorted = [...KEYS].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    const pages = await allPages(store);
    expect(pages.flatMap(({ objects }) => objects.map(({ key }) => key))).toEqual(sorted);
    const inside = [];
    for await (const { objects } of store.list('dir.', { startAfter: 'dir.' }))
      inside.push(...objects.map(({ key }) => key));
    expect(inside).toEqual(['dir../a.', 'dir./a']);
    const view = await openAzureContainer(place);
    for (const name of await view.list('run/')) expect(name).not.toMatch(/\\|\.(\/|$)/);
    expect(await store.deleteMany(KEYS)).toEqual(KEYS.map((key) => ({ key })));
    expect(await view.list('run/')).toEqual([]);
  });
});
