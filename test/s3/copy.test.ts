/** Server-side copies on S3. */

import { crc32c } from '@holdfast/core';
import { CheckpointError, crc32cCombine, type ObjectStore } from '@holdfast/core/contract';
import { MemoryStore } from '@holdfast/core/store';
import { openS3Store } from '@holdfast/store-s3';
import { describe, expect, test } from 'vitest';
import { errorOf, type Script } from '../scripted/scripted-server.ts';
import { describeOnS3 } from '../servers/describe-on-s3.ts';
import { refusal, type ScriptedS3, scriptedS3, uploadGoesWell } from './scripted-s3.ts';

const MIB = 1024 * 1024;

type CopyFrom = NonNullable<ObjectStore['copyFrom']>;

const copy = (store: ObjectStore, ...args: Parameters<CopyFrom>) => (store.copyFrom as CopyFrom)(...args);

describeOnS3('copies on a server', (server) => {
  async function twoStores() {
    const [from, to] = [await server().newBucket(), await server().newBucket()];
    return { from: await openS3Store(from.uri, from.env), to: await openS3Store(to.uri, to.env) };
  }

  test('an object has the same bytes under its new key, and the checksum that is told is theirs', async () => {
    const { from, to } = await twoStores();
    const bytes = new TextEncoder().encode('some bytes of a checkpoint');
    await from.create('a b/ü+%.bin', bytes, { crc32c: crc32c(bytes) });
    const copied = await copy(to, from, 'a b/ü+%.bin', 'copy/of it', { sizeBytes: bytes.byteLength });
    expect(copied).toMatchObject({ key: 'copy/of it', sizeBytes: bytes.byteLength });
    expect(copied?.crc32c ?? crc32c(bytes)).toBe(crc32c(bytes));
    expect((await to.get('copy/of it', { maxBytes: 1000 })).bytes).toEqual(bytes);
    expect((await to.head('copy/of it')).etag).toBe(copied?.etag);
    const missing = copy(to, from, 'not there', 'copy/of nothing', { sizeBytes: 1 });
    expect((await errorOf(missing)).code).toBe('NotFound');
    await Promise.all([from.close(), to.close()]);
  });

  test('a large object is copied in ranges', { timeout: 120_000 }, async () => {
    const { from, to } = await twoStores();
    const part = new Uint8Array(65 * MIB).map((_, index) => index >>> 12);
    const sums = [crc32c(part), crc32c(part), crc32c(part), crc32c(part)];
    const whole = sums.reduce((sum, each) => crc32cCombine(sum, each, part.byteLength));
    const sizeBytes = 4 * part.byteLength; // above 256 MiB
    const upload = await from.beginUpload('large', { partSizeBytes: part.byteLength });
    const parts = [];
    for (const [index, sum] of sums.entries()) parts.push(await upload.putPart(index, part, { crc32c: sum }));
    await upload.complete(parts, { sizeBytes, crc32c: whole });

    const told: number[] = [];
    const onProgress = (bytes: number) => told.push(bytes);
    const copied = await copy(to, from, 'large', 'copy', { sizeBytes, onProgress });
    expect(told.at(-1)).toBe(sizeBytes);
    expect(copied?.crc32c ?? whole).toBe(whole);
    expect((await to.head('copy')).sizeBytes).toBe(sizeBytes);
    const buffer = new Uint8Array(part.byteLength);
    for (let index = 0; index < 4; index += 1) {
      await to.readInto('copy', index * part.byteLength, buffer);
      expect(Buffer.compare(buffer, part)).toBe(0);
    }
    await Promise.all([from.close(), to.close()]);
  });
});

const COPIED =
  '<CopyObjectResult><ETag>"copied"</ETag><ChecksumCRC32C>AAAAAQ==</ChecksumCRC32C></CopyObjectResult>';

async function copiedBy(
  script: Script,
  sizeBytes = 10,
): Promise<{ server: ScriptedS3; copying: ReturnType<CopyFrom> }> {
  const server = await scriptedS3(script);
  const [from, to] = [await server.open(), await server.open({ storageClass: 'STANDARD_IA', sse: 'AES256' })];
  return { server, copying: copy(to, from, 'a b/ü', 'copy', { sizeBytes }) };
}

describe('one request', () => {
  test('names the source, refuses to replace, and carries what the settings of the target say', async () => {
    const { server, copying } = await copiedBy(() => ({ body: COPIED }));
    expect(await copying).toMatchObject({ key: 'copy', sizeBytes: 10, etag: 'copied', crc32c: 1 });
    expect(server.requests).toHaveLength(1);
    expect(server.requests[0]).toMatchObject({
      method: 'PUT',
      headers: {
        'x-amz-copy-source': 'runs/gpt/a%20b/%C3%BC',
        'if-none-match': '*',
        'x-amz-checksum-algorithm': 'CRC32C',
        'x-amz-storage-class': 'STANDARD_IA',
        'x-amz-server-side-encryption': 'AES256',
      },
    });
  });

  test('a checksum of checksums is not one of the bytes', async () => {
    const composite = COPIED.replace('</ETag>', '</ETag><ChecksumType>COMPOSITE</ChecksumType>');
    const { copying } = await copiedBy(() => ({ body: composite }));
    expect(await copying).toMatchObject({ crc32c: undefined });
  });

  test.each([
    ['200 with an error', refusal(200, 'InternalError'), 'Unavailable'],
    ['200 without a result', { body: '<CopyObjectResult></CopyObjectResult>' }, 'InvalidConfig'],
    ['no such source', refusal(404, 'NoSuchKey'), 'NotFound'],
    ['a key that is taken', refusal(412, 'PreconditionFailed'), 'AlreadyExists'],
    ['no permission', refusal(403, 'AccessDenied'), 'Denied'],
    ['a store that has no such request', refusal(501, 'NotImplemented'), 'Unsupported'],
  ] as const)('%s is %3$s', async (_, answer, code) => {
    const { copying } = await copiedBy(() => answer);
    expect((await errorOf(copying)).code).toBe(code);
  });
});

describe('in parts', () => {
  const SIZE = 600 * MIB;
  const isCopyOfPart: (request: Parameters<Script>[0]) => boolean = ({ method, query }) =>
    method === 'PUT' && query.has('partNumber');
  const partCopied = (checksum: string) => ({
    body: `<CopyPartResult><ETag>"part"</ETag>${checksum}</CopyPartResult>`,
  });
  const goesWell =
    (checksum: string): Script =>
    (request, index) =>
      isCopyOfPart(request) ? partCopied(checksum) : uploadGoesWell(request, index);

  test('each is asked for its range, and their checksums make that of the whole', async () => {
    const { server, copying } = await copiedBy(goesWell('<ChecksumCRC32C>AAAAAQ==</ChecksumCRC32C>'), SIZE);
    const part = SIZE / 3;
    const whole = [1, 1, 1].reduce((sum, each) => crc32cCombine(sum, each, part));
    expect(await copying).toMatchObject({ sizeBytes: SIZE, crc32c: whole, etag: 'whole' });
    const ranges = server.requests
      .filter(isCopyOfPart)
      .map(({ headers }) => headers['x-amz-copy-source-range']);
    expect(ranges.sort()).toEqual(
      [`bytes=0-${part - 1}`, `bytes=${part}-${2 * part - 1}`, `bytes=${2 * part}-${SIZE - 1}`].sort(),
    );
  });

  test('a store that reports no checksums of the parts reports none of the whole', async () => {
    const { copying } = await copiedBy(goesWell(''), SIZE);
    expect(await copying).toMatchObject({ sizeBytes: SIZE, crc32c: undefined });
  });

  test('a store that cannot tell the checksums of parts it copies is asked for none, and not asked again', async () => {
    const types: (string | undefined)[] = [];
    const { server, copying } = await copiedBy((request, index) => {
      const { headers, query } = request;
      if (query.has('uploads')) types.push(headers['x-amz-checksum-algorithm']);
      if (!isCopyOfPart(request)) return uploadGoesWell(request, index);
      return types.at(-1) === undefined ? partCopied('') : refusal(400, 'InvalidArgument');
    }, SIZE);
    expect(await copying).toMatchObject({ sizeBytes: SIZE, crc32c: undefined });
    expect(types).toEqual(['CRC32C', undefined]);
    expect(server.requests.filter(({ method }) => method === 'DELETE')).toHaveLength(1);
    const completion = server.requests.at(-1);
    expect(completion?.headers).not.toHaveProperty('x-amz-checksum-type');
  });

  test('one that fails ends the copy, and the upload is aborted', async () => {
    const { server, copying } = await copiedBy((request, index) => {
      if (!isCopyOfPart(request)) return uploadGoesWell(request, index);
      return request.query.get('partNumber') === '2' ? refusal(503, 'SlowDown') : partCopied('');
    }, SIZE);
    expect((await errorOf(copying)).code).toBe('Throttled');
    expect(server.requests.at(-1)?.method).toBe('DELETE');
  });

  test('one that the caller stops ends soon, and the upload is aborted', async () => {
    const stop = new AbortController();
    const server = await scriptedS3((request, index) => {
      if (!isCopyOfPart(request)) return uploadGoesWell(request, index);
      stop.abort(new CheckpointError('Aborted', 'the caller stopped'));
      return 'silence';
    });
    const [from, to] = [await server.open(), await server.open()];
    const copying = copy(to, from, 'a', 'copy', { sizeBytes: SIZE, signal: stop.signal });
    expect((await errorOf(copying)).message).toBe('the caller stopped');
    expect(server.requests.at(-1)?.method).toBe('DELETE');
  });

  test('what cannot be aborted does not hide why the copy failed', async () => {
    const { copying } = await copiedBy((request, index) => {
      if (request.method === 'DELETE') return refusal(500, 'InternalError');
      return isCopyOfPart(request) ? refusal(403, 'AccessDenied') : uploadGoesWell(request, index);
    }, SIZE);
    expect((await errorOf(copying)).code).toBe('Denied');
  });
});

describe('what is not asked', () => {
  test.each<[string, Record<string, string>, Record<string, string>]>([
    ['another profile', { profile: 'other' }, {}],
    ['other credentials', {}, { AWS_ACCESS_KEY_ID: 'OTHER', AWS_SECRET_ACCESS_KEY: 'secret-of-OTHER' }],
    ['a requester that pays', { requestPayer: 'true' }, {}],
  ])('a source with %s', async (_, settings, env) => {
    const server = await scriptedS3(() => ({ body: COPIED }));
    const [from, to] = [await server.open(settings, env), await server.open()];
    expect(await copy(to, from, 'a', 'b', { sizeBytes: 1 })).toBe(null);
    expect(server.requests).toEqual([]);
  });

  test('another server, another provider', async () => {
    const [server, other] = [
      await scriptedS3(() => ({ body: COPIED })),
      await scriptedS3(() => ({ body: COPIED })),
    ];
    const to = await server.open();
    expect(await copy(to, await other.open(), 'a', 'b', { sizeBytes: 1 })).toBe(null);
    expect(await copy(to, new MemoryStore(), 'a', 'b', { sizeBytes: 1 })).toBe(null);
    expect([...server.requests, ...other.requests]).toEqual([]);
  });

  test('a signal that has fired', async () => {
    const server = await scriptedS3(() => ({ body: COPIED }));
    const [from, to] = [await server.open(), await server.open()];
    const signal = AbortSignal.abort(new CheckpointError('Aborted', 'the caller stopped'));
    expect((await errorOf(copy(to, from, 'a', 'b', { sizeBytes: 1, signal }))).code).toBe('Aborted');
    expect(server.requests).toEqual([]);
  });
});
