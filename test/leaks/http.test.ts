/**
 * Reads over HTTP that are closed or dropped. Their connections close too, although the server
 * never answers.
 */

import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { openObjectSource } from '@holdfast/core';
import { expect, test } from 'vitest';
import { listing, object, scriptedS3 } from '../s3/scripted-s3.ts';

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');

const COUNT = 30;
const SETTINGS = { bufferBytes: 16 * 1024 * 1024 };

test.each(['closed', 'forgotten'])('sources in the middle of a read are %s', async (how) => {
  const server = await scriptedS3(({ method }) => (method === 'HEAD' ? object('abc') : 'silence'));
  const store = await server.open();
  const reads: Promise<unknown>[] = [];
  // A separate function, so that everything it opened is garbage after its return.
  const readOne = async () => {
    const source = await openObjectSource(store, 'a', { settings: SETTINGS });
    const asked = server.requests.length;
    reads.push(source.readInto(0, new Uint8Array(3)).catch((error: { code: string }) => error.code));
    while (server.requests.length === asked) await turn();
    if (how === 'closed') await source.close();
  };
  for (let count = 0; count < COUNT; count += 1) await readOne();
  while (server.openConnections > 0) {
    if (how === 'forgotten') collectGarbage();
    await turn();
  }
  expect(await Promise.all(reads)).toEqual(reads.map(() => 'Aborted'));
});

test.each(['ended', 'left'])('listings are %s after their first page', async (how) => {
  const server = await scriptedS3(() => listing('gpt/a'));
  const store = await server.open();
  for (let count = 0; count < COUNT; count += 1) {
    const pages = store.list('')[Symbol.asyncIterator]();
    expect((await pages.next()).value?.objects).toHaveLength(1);
    if (how === 'ended') await pages.return?.();
  }
  expect(server.connections).toBe(1);
});

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
