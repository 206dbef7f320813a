/**
 * Another server answers a read for the store, such as a load balancer in front of it. Its answer
 * says nothing about the object, so the object must not count as damaged.
 */

import type { ObjectStore } from '@holdfast/core/contract';
import { expect, test } from 'vitest';
import { scriptedAzure } from '../azure/scripted-azure.ts';
import { scriptedGcs } from '../gcs/scripted-gcs.ts';
import { scriptedS3 } from '../s3/scripted-s3.ts';
import { errorOf, type Reply } from '../scripted/scripted-server.ts';

type Open = (reply: () => Reply) => Promise<{ open(): Promise<ObjectStore> }>;
const CLOUDS: readonly [string, Open][] = [
  ['S3', scriptedS3],
  ['GCS', scriptedGcs],
  ['Azure', scriptedAzure],
];

const OBJECT: Reply = {
  status: 200,
  headers: { etag: '"e1"', 'x-goog-generation': '7', 'x-ms-request-id': '1' },
  body: 'abc',
};
const OF_STORE = { 'x-amz-request-id': '1', 'x-goog-request-id': '1', 'x-ms-request-id': '1' };
const PAGE = '<html>this service is not available</html>';
/** As the store itself would answer, but for the status. */
const NOTHING: Reply = { ...OBJECT, status: 204, body: '' };
const LONG_PAGE = PAGE.repeat(50_000);
const FOREIGN: readonly [string, Reply][] = [
  ['a long page as a success', { status: 200, body: LONG_PAGE }],
  ['a long page as 503', { status: 503, body: LONG_PAGE }],
  ['a long page as 404', { status: 404, body: LONG_PAGE }],
  ['a page as a success', { status: 200, body: PAGE }],
  ['204 with the etag', NOTHING],
  ['an empty success', { status: 200 }],
  ['a page as 412', { status: 412, body: PAGE }],
  ['an empty 412', { status: 412 }],
  ['a page as 416', { status: 416, body: PAGE }],
  ['an empty 416', { status: 416 }],
];

const CALLS: readonly [string, (store: ObjectStore) => Promise<unknown>][] = [
  ['readInto', (store) => store.readInto('a', 0, new Uint8Array(3))],
  ['readInto with an etag', (store) => store.readInto('a', 0, new Uint8Array(3), { etag: 'e1' })],
  ['get', (store) => store.get('a', { maxBytes: 100 })],
];

const NOT_OF_A_READ: readonly [string, Reply][] = [
  [
    'no length',
    { raw: 'HTTP/1.1 200 OK\r\nETag: "e1"\r\nx-goog-generation: 7\r\nConnection: close\r\n\r\nab' },
  ],
  ['a part of it', { ...OBJECT, headers: { ...OBJECT.headers, 'content-range': 'bytes 0-2/6' } }],
  [
    '412',
    {
      status: 412,
      headers: OF_STORE,
      body: '<?xml version="1.0"?><Error><Code>PreconditionFailed</Code></Error>',
    },
  ],
  [
    '416',
    { status: 416, headers: OF_STORE, body: '<?xml version="1.0"?><Error><Code>InvalidRange</Code></Error>' },
  ],
];

test.each(
  CLOUDS.flatMap(([cloud, open]) => NOT_OF_A_READ.map(([said, reply]) => ({ cloud, open, said, reply }))),
)('$cloud: a record that is answered with $said may be read again', async ({ open, reply }) => {
  const store = await (await open(() => reply)).open();
  expect(await errorOf(store.get('a', { maxBytes: 100 }))).toMatchObject({
    code: 'Unavailable',
    status: 'temporary',
  });
});

test.each(
  CLOUDS.flatMap(([cloud, open]) =>
    FOREIGN.flatMap(([said, reply]) =>
      CALLS.map(([name, call]) => ({ cloud, open, said, reply, name, call })),
    ),
  ),
)('$cloud: $name that is answered by $said may be repeated', async ({ open, reply, call }) => {
  let isForeign = false;
  const server = await open(() => (isForeign ? reply : OBJECT));
  const store = await server.open();
  await store.get('a', { maxBytes: 100 });
  isForeign = true;
  expect(await errorOf(call(store))).toMatchObject({ code: 'Unavailable', status: 'temporary' });
});
