import type { ObjectStore, OpenUpload } from '@holdfast/core/contract';
import { type Check, check } from './check.ts';
import { expectEqual, expectRejection, expectTrue } from './expect.ts';
import type { Scratch } from './scratch.ts';
import { complete, putPart } from './upload-checks.ts';

/**
 * Largest difference between `beganAtMs` of a new upload and this machine's clock. Clocks differ,
 * and a listing may report the time by the clock of the client that began the upload.
 */
const AGE_MS_MAX = 60 * 60_000;

/** Passes for a store without `listUploads`. */
export const openUploadChecks: readonly Check[] = [
  check(
    'listUploads: an upload is shown from when it was begun until it is completed or aborted',
    async (t) => {
      if (t.store.listUploads === undefined) return;
      const bytes = t.random.bytes(10);
      const [open, completed, aborted] = [
        await t.beginUpload('open'),
        await t.beginUpload('completed'),
        await t.beginUpload('aborted'),
      ];
      expectEqual((await found(t, 'open')).length, 1, 'uploads shown of one without parts');
      await putPart(open, 0, bytes);
      await putPart(aborted, 0, bytes);
      await complete(completed, [await putPart(completed, 0, bytes)], bytes);
      await aborted.abort();
      expectEqual(
        [await found(t, 'completed'), await found(t, 'aborted')],
        [[], []],
        'uploads that have ended',
      );
      const [shown, ...more] = await found(t, 'open');
      expectTrue(shown !== undefined && more.length === 0, 'uploads under one key', 'one', more.length + 1);
      expectEqual(shown.key, open.key, 'key of the upload');
      const ageMs = Math.abs(Date.now() - shown.beganAtMs);
      expectTrue(
        ageMs < AGE_MS_MAX,
        'beganAtMs of a new upload',
        'about now, in milliseconds',
        shown.beganAtMs,
      );
      const isRight = shown.sizeBytes === undefined || shown.sizeBytes === bytes.byteLength;
      expectTrue(isRight, 'sizeBytes of the upload', `${bytes.byteLength}, or none`, shown.sizeBytes);
    },
  ),

  check(
    'listUploads: a prefix is a text, and each upload whose key starts with it is shown once',
    async (t) => {
      if (t.store.listUploads === undefined) return;
      const names = ['dir/a', 'dir/b/c', 'dir-2/a', 'other'];
      for (const name of names) await t.beginUpload(name);
      await t.create('dir/object');
      for (const prefix of ['dir/', 'dir', 'o', '', 'dir/a/']) {
        const expected = names.filter((name) => name.startsWith(prefix)).map((name) => t.key(name));
        const keys = (await found(t, prefix)).map(({ key }) => key);
        expectEqual(keys.sort(), expected.sort(), `keys of uploads below "${prefix}"`);
      }
    },
  ),

  check('listUploads: by its token another client lists the parts of an upload and aborts it', async (t) => {
    if (t.store.listUploads === undefined) return;
    const bytes = t.random.bytes(t.partSizeBytes + 5).subarray(0, t.partSizeBytes * t.capabilities.maxParts);
    const begun = await t.beginUpload('a');
    const sent = [await putPart(begun, 0, bytes)];
    if (bytes.byteLength > t.partSizeBytes) sent.push(await putPart(begun, 1, bytes));
    const other = await t.open();
    const [shown] = await found(t, 'a', other);
    expectTrue(shown !== undefined, 'uploads that another client sees', 'one', shown);
    const upload = await other.resumeUpload(shown.token);
    expectEqual(upload.key, begun.key, 'key of the resumed upload');
    const isPartSize = [0, t.partSizeBytes].includes(upload.partSizeBytes);
    expectTrue(isPartSize, 'its part size', `${t.partSizeBytes}, or 0`, upload.partSizeBytes);
    const facts = (await upload.listParts()).map(({ index, sizeBytes, etag }) => [index, sizeBytes, etag]);
    expectEqual(
      facts,
      sent.map(({ index, sizeBytes, etag }) => [index, sizeBytes, etag]),
      'its parts',
    );
    await upload.abort();
    expectEqual(await found(t, 'a'), [], 'uploads after the abort');
    await expectRejection(() => complete(begun, sent, bytes), 'NotFound', 'complete after the abort');
    await expectRejection(
      () => t.store.resumeUpload(shown.token),
      'NotFound',
      'resumeUpload after the abort',
    );
  }),
];

/** Uploads that the store lists under keys with this prefix. */
async function found(t: Scratch, prefix: string, store: ObjectStore = t.store): Promise<OpenUpload[]> {
  const uploads: OpenUpload[] = [];
  for await (const upload of store.listUploads?.(t.key(prefix)) ?? []) uploads.push(upload);
  return uploads;
}
