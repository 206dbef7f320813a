/** The effect of the settings in a URI on each request, and what its signature covers. */

import { createHash } from 'node:crypto';
import type { ObjectStore } from '@holdfast/core/contract';
import { describe, expect, test } from 'vitest';
import type { Script } from '../scripted/scripted-server.ts';
import {
  CREATED,
  listing,
  object,
  type ScriptedS3,
  type SeenRequest,
  scriptedS3,
  uploadGoesWell,
} from './scripted-s3.ts';
import { encoded } from './signature-fault.ts';

const BYTES = new Uint8Array(5 * 1024 * 1024).fill(7);
const CUSTOMER_KEY = Buffer.alloc(32, 7).toString('base64');

const OPERATIONS = [
  'create',
  'beginUpload',
  'putPart',
  'listParts',
  'complete',
  'abort',
  'head',
  'get',
  'readInto',
  'list',
  'deleteMany',
] as const;
type Operation = (typeof OPERATIONS)[number];

const answerAll: Script = (request, index) => {
  const { method, path, query } = request;
  if (query.has('list-type')) return listing();
  if (query.has('delete')) return { body: '<DeleteResult/>' };
  if (method === 'PUT' && !query.has('uploadId')) return CREATED;
  if (query.has('uploads') || query.has('uploadId')) return uploadGoesWell(request, index);
  if (request.headers['range'] !== undefined)
    return { ...object('abc', { 'content-range': 'bytes 0-2/3' }), status: 206 };
  return path.endsWith('/object') ? object('abc') : { status: 404 };
};

/** Makes every call of a store once. */
async function callAll(store: ObjectStore): Promise<void> {
  await store.create('object', new Uint8Array([1]), { crc32c: 1 });
  const upload = await store.beginUpload('large', { partSizeBytes: BYTES.byteLength });
  const part = await upload.putPart(0, BYTES, { crc32c: 2 });
  await upload.listParts();
  await upload.complete([part], { sizeBytes: BYTES.byteLength, crc32c: 3 });
  await upload.abort();
  await store.head('object');
  await store.get('object', { maxBytes: 10 });
  await store.readInto('object', 0, new Uint8Array(3));
  for await (const page of store.list('')) expect(page.objects).toEqual([]);
  await store.deleteMany(['object']);
}

async function requestsWith(
  settings: Record<string, string>,
  env: Record<string, string> = {},
): Promise<Record<Operation, SeenRequest>> {
  const server: ScriptedS3 = await scriptedS3(answerAll);
  await callAll(await server.open(settings, env));
  expect(server.requests).toHaveLength(OPERATIONS.length);
  return Object.fromEntries(
    OPERATIONS.map((operation, index) => [operation, server.requests[index]]),
  ) as Record<Operation, SeenRequest>;
}

/** The operations that send a header. All of them must send the same value. */
function sendersOf(requests: Record<Operation, SeenRequest>, name: string, value: string): Operation[] {
  const senders = OPERATIONS.filter((operation) => name in requests[operation].headers);
  for (const operation of senders) expect(requests[operation].headers[name]).toBe(value);
  return senders;
}

const WRITES: Operation[] = ['create', 'beginUpload'];
const TOUCH_BYTES: Operation[] = [
  'create',
  'beginUpload',
  'putPart',
  'listParts',
  'complete',
  'head',
  'get',
  'readInto',
];

describe('a setting is sent with exactly the requests that it belongs to', () => {
  test.each<[string, Record<string, string>, Record<string, string>, Operation[]]>([
    ['encryption by the store', { sse: 'AES256' }, { 'x-amz-server-side-encryption': 'AES256' }, WRITES],
    [
      'encryption by a key of KMS',
      { sse: 'aws:kms', kmsKeyId: 'alias/train', bucketKey: 'true' },
      {
        'x-amz-server-side-encryption': 'aws:kms',
        'x-amz-server-side-encryption-aws-kms-key-id': 'alias/train',
        'x-amz-server-side-encryption-bucket-key-enabled': 'true',
      },
      WRITES,
    ],
    ['storage class', { storageClass: 'STANDARD_IA' }, { 'x-amz-storage-class': 'STANDARD_IA' }, WRITES],
    [
      'expected owner',
      { expectedOwner: '123456789012' },
      { 'x-amz-expected-bucket-owner': '123456789012' },
      [...OPERATIONS],
    ],
    ['request payer', { requestPayer: 'true' }, { 'x-amz-request-payer': 'requester' }, [...OPERATIONS]],
  ])('%s', async (_name, settings, headers, operations) => {
    const requests = await requestsWith(settings);
    for (const [name, value] of Object.entries(headers))
      expect([name, sendersOf(requests, name, value)]).toEqual([name, operations]);
  });

  test('encryption by a key of the customer: with all that touches bytes, and neither delete nor list', async () => {
    const requests = await requestsWith({}, { HOLDFAST_S3_CUSTOMER_KEY: CUSTOMER_KEY });
    const prefix = 'x-amz-server-side-encryption-customer';
    const md5 = createHash('md5').update(Buffer.alloc(32, 7)).digest('base64');
    expect(sendersOf(requests, `${prefix}-algorithm`, 'AES256')).toEqual(TOUCH_BYTES);
    expect(sendersOf(requests, `${prefix}-key`, CUSTOMER_KEY)).toEqual(TOUCH_BYTES);
    expect(sendersOf(requests, `${prefix}-key-md5`, md5)).toEqual(TOUCH_BYTES);
  });

  test('without settings none of them is sent', async () => {
    const requests = await requestsWith({});
    const names = OPERATIONS.flatMap((operation) => Object.keys(requests[operation].headers));
    const optional = /server-side-encryption|storage-class|expected-bucket-owner|request-payer/;
    expect(names.filter((name) => optional.test(name))).toEqual([]);
  });
});

describe('what is signed', () => {
  test('bodies over the loopback are not: the checksum protects them', async () => {
    const requests = await requestsWith({});
    for (const operation of ['create', 'putPart'] as const)
      expect(requests[operation].headers['x-amz-content-sha256']).toBe('UNSIGNED-PAYLOAD');
  });

  // The scripted server hashes the bodies and rejects another signature.
  test('payload=signed: the bodies too', async () => {
    const requests = await requestsWith({ payload: 'signed' });
    for (const operation of OPERATIONS)
      expect(requests[operation].headers['x-amz-content-sha256']).toMatch(/^[0-9a-f]{64}$/);
  });

  test('no request asks for leave before it sends its body', async () => {
    const requests = await requestsWith({});
    for (const operation of OPERATIONS) expect(requests[operation].headers).not.toHaveProperty('expect');
  });
});

describe('checksums', () => {
  const CRC_2 = 'AAAAAg==';
  const CRC_3 = 'AAAAAw==';

  test('full: checksums of each part and of the whole object', async () => {
    const { beginUpload, putPart, complete } = await requestsWith({});
    expect(beginUpload.headers).toMatchObject({
      'x-amz-checksum-algorithm': 'CRC32C',
      'x-amz-checksum-type': 'FULL_OBJECT',
    });
    expect(putPart.headers['x-amz-checksum-crc32c']).toBe(CRC_2);
    expect(complete.headers).toMatchObject({
      'x-amz-checksum-crc32c': CRC_3,
      'x-amz-checksum-type': 'FULL_OBJECT',
      'x-amz-mp-object-size': String(BYTES.byteLength),
    });
    expect(complete.body.toString()).toContain(`<ChecksumCRC32C>${CRC_2}</ChecksumCRC32C>`);
  });

  test('parts: checksums of each part alone', async () => {
    const { beginUpload, putPart, complete } = await requestsWith({ checksum: 'parts' });
    expect(beginUpload.headers['x-amz-checksum-algorithm']).toBe('CRC32C');
    expect(beginUpload.headers).not.toHaveProperty('x-amz-checksum-type');
    expect(putPart.headers['x-amz-checksum-crc32c']).toBe(CRC_2);
    expect(complete.headers).not.toHaveProperty('x-amz-checksum-crc32c');
    expect(complete.headers).not.toHaveProperty('x-amz-checksum-type');
    expect(complete.body.toString()).toContain(`<ChecksumCRC32C>${CRC_2}</ChecksumCRC32C>`);
  });

  test('none: no checksum anywhere', async () => {
    const { create, beginUpload, putPart, complete } = await requestsWith({ checksum: 'none' });
    for (const { headers, body } of [create, beginUpload, putPart, complete]) {
      expect(Object.keys(headers).filter((name) => name.startsWith('x-amz-checksum'))).toEqual([]);
      expect(body.subarray(0, 4096).toString()).not.toContain('Checksum');
    }
  });
});

describe('keys', () => {
  const long = Array.from({ length: 4 }, (_, index) => `${index}`.repeat(255))
    .join('/')
    .slice(0, 1024 - 'gpt/'.length);
  const KEYS = [
    'a b',
    'a+b',
    'a%20b',
    'ü/日本/🙂',
    "it's(1)*!",
    'a&b=c?d#e',
    '~tilde._-',
    'x:y;z@,$"<>\\^`{|}',
    long,
  ];

  // The scripted server compares the path with its own encoding, and the signature with that path.
  test.each(KEYS)('%j goes over the wire as the signature wants it', async (key) => {
    const server = await scriptedS3((request) => (request.method === 'PUT' ? CREATED : object('abc')));
    const store = await server.open();
    await store.create(key, new Uint8Array([1]));
    await store.get(key, { maxBytes: 10 });
    const path = `/runs/gpt/${key.split('/').map(encoded).join('/')}`;
    expect(server.requests.map((request) => [request.path, request.signatureFault])).toEqual([
      [path, undefined],
      [path, undefined],
    ]);
  });

  test.each(KEYS)('%j in the requests of an upload too', async (key) => {
    const server = await scriptedS3(uploadGoesWell);
    const store = await server.open();
    const upload = await store.beginUpload(key, { partSizeBytes: BYTES.byteLength });
    await upload.abort();
    expect(server.requests.map(({ signatureFault, path }) => [signatureFault, path])).toEqual(
      Array.from({ length: 2 }, () => [undefined, `/runs/gpt/${key.split('/').map(encoded).join('/')}`]),
    );
  });

  test('what listings say comes back as it was', async () => {
    const names = ['a b', 'a+b', 'a%20b', 'ü/日本/🙂'];
    const server = await scriptedS3(() => listing(...names.map((name) => `gpt/${name}`)));
    const store = await server.open();
    const found: string[] = [];
    for await (const page of store.list('')) found.push(...page.objects.map(({ key }) => key));
    expect(found).toEqual(names);
  });

  test('one byte more than 1,024 is refused before anything is sent', async () => {
    const server = await scriptedS3(() => CREATED);
    const store = await server.open();
    await expect(store.create(`${long}x`, new Uint8Array([1]))).rejects.toMatchObject({
      code: 'InvalidArgument',
    });
    expect(server.requests).toHaveLength(0);
  });
});
