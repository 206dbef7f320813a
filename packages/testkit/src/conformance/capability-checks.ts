import { crc32c } from '../crc32c.ts';
import { tryWrongChecksums } from '../trials/upload-trials.ts';
import { type Check, check } from './check.ts';
import { expectBytes, expectEqual, expectRejection, expectTrue } from './expect.ts';
import type { Scratch } from './scratch.ts';

/**
 * Larger creates are not tested: no store needs so much in one request, and the machine may not
 * have the memory.
 */
const TRIED_BYTES_MAX = 256 * 1024 * 1024;

export const capabilityChecks: readonly Check[] = [
  check('capabilities: limits are whole numbers that fit each other', async ({ capabilities }) => {
    const { verifiesChecksums, resumesUploads, takesSharedMemory = false, ...limits } = capabilities;
    for (const [name, limit] of Object.entries(limits)) {
      expectTrue(Number.isSafeInteger(limit) && limit >= 1, name, 'a whole number of at least 1', limit);
    }
    for (const [name, flag] of Object.entries({ verifiesChecksums, resumesUploads, takesSharedMemory })) {
      expectTrue(typeof flag === 'boolean', name, 'true or false', flag);
    }
    const { minPartBytes, maxPartBytes, alignmentBytes } = capabilities;
    expectTrue(
      minPartBytes <= maxPartBytes,
      'minPartBytes',
      `at most maxPartBytes (${maxPartBytes})`,
      minPartBytes,
    );
    expectTrue(
      Number.isInteger(Math.log2(alignmentBytes)),
      'alignmentBytes',
      'a power of two',
      alignmentBytes,
    );
  }),

  check(
    'uri and capabilities are the same for every client of a store, and the uri shows no credentials',
    async (t) => {
      const other = await t.open();
      expectEqual(other.uri, t.store.uri, 'uri of a second client');
      expectEqual(other.capabilities, t.capabilities, 'capabilities of a second client');
      expectTrue(/^[a-z][a-z0-9+.-]*:\/\//.test(t.store.uri), 'uri', 'a scheme and "://"', t.store.uri);
      const authority = t.store.uri.split('/')[2] ?? '';
      expectTrue(!authority.includes('@'), 'uri', 'no user or password', t.store.uri);
    },
  ),

  check('create: maxCreateBytes are taken, one byte more is InvalidArgument and has no effect', async (t) => {
    const { maxCreateBytes } = t.capabilities;
    if (maxCreateBytes > TRIED_BYTES_MAX) return;
    const bytes = t.random.bytes(maxCreateBytes + 1);
    const tooLarge = t.store.create(t.key('too-large'), bytes, { crc32c: crc32c(bytes) });
    await expectRejection(tooLarge, 'InvalidArgument', `create of ${bytes.byteLength} bytes`);
    const largest = bytes.subarray(0, maxCreateBytes);
    await t.create('largest', largest);
    const found = await t.store.get(t.key('largest'), { maxBytes: maxCreateBytes });
    expectBytes(found.bytes, largest, 'the largest object');
    expectEqual(await t.listNames(), ['largest'], 'objects');
  }),

  check('beginUpload: a part size outside the limits is InvalidArgument', async (t) => {
    const { minPartBytes, maxPartBytes } = t.capabilities;
    for (const partSizeBytes of [minPartBytes - 1, maxPartBytes + 1, minPartBytes + 0.5]) {
      const what = `beginUpload with parts of ${partSizeBytes} bytes`;
      await expectRejection(() => t.beginUpload('a', { partSizeBytes }), 'InvalidArgument', what);
    }
    await t.beginUpload('smallest', { partSizeBytes: minPartBytes });
    await t.beginUpload('largest', { partSizeBytes: maxPartBytes });
  }),

  check('putPart: a part beyond maxParts or larger than the part size is InvalidArgument', async (t) => {
    const upload = await t.beginUpload('a');
    const put = (index: number, sizeBytes: number) => {
      const bytes = new Uint8Array(sizeBytes);
      return upload.putPart(index, bytes, { crc32c: crc32c(bytes) });
    };
    for (const index of [-1, 0.5, t.capabilities.maxParts]) {
      await expectRejection(put(index, 1), 'InvalidArgument', `putPart ${index}`);
    }
    await expectRejection(
      put(0, upload.partSizeBytes + 1),
      'InvalidArgument',
      'putPart of one byte too many',
    );
    expectEqual(await upload.listParts(), [], 'parts of the upload');
  }),

  check(
    'create: a wrong CRC32C is Corrupt and has no effect; where it is not verified, it is ignored',
    async (t) => {
      if (t.capabilities.verifiesChecksums) await tryWrongChecksums(t);
      const bytes = t.creatableBytes(1000);
      const wrong = (crc32c(bytes) ^ 1) >>> 0;
      await refusesWrongChecksum(t, () => t.store.create(t.key('a'), bytes, { crc32c: wrong }), 'create');
      expectEqual(await t.listNames(), t.capabilities.verifiesChecksums ? [] : ['a'], 'objects');
    },
  ),

  check('putPart: a wrong CRC32C is Corrupt and the right one is taken afterwards', async (t) => {
    const bytes = t.random.bytes(t.partSizeBytes);
    const right = crc32c(bytes);
    const upload = await t.beginUpload('a');
    await refusesWrongChecksum(t, () => upload.putPart(0, bytes, { crc32c: (right ^ 1) >>> 0 }), 'putPart');
    const receipt = await upload.putPart(0, bytes, { crc32c: right });
    await upload.complete([receipt], { sizeBytes: bytes.byteLength, crc32c: right });
    const { bytes: found } = await t.store.get(t.key('a'), { maxBytes: bytes.byteLength });
    expectBytes(found, bytes, 'the completed object');
  }),
];

async function refusesWrongChecksum(
  t: Scratch,
  send: () => Promise<unknown>,
  operation: string,
): Promise<void> {
  const what = `${operation} with a wrong checksum`;
  if (t.capabilities.verifiesChecksums) await expectRejection(send, 'Corrupt', what);
  else await send();
}
