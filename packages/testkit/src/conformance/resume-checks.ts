import type { ObjectStore, PartReceipt } from '@holdfast/core/contract';
import { tryToResume } from '../trials/upload-trials.ts';
import { type Check, check } from './check.ts';
import { expectEqual, expectRejection } from './expect.ts';
import type { Scratch } from './scratch.ts';
import { complete, expectInvisible, expectObject, putPart } from './upload-checks.ts';

export const resumeChecks: readonly Check[] = [
  check(
    'resumeUpload: another client finds the parts by the token, sends the rest and completes',
    async (t) => {
      const bytes = t.random.bytes(3 * t.partSizeBytes - 1);
      const begun = await t.beginUpload('a', { sizeBytes: bytes.byteLength });
      const sent = [await putPart(begun, 0, bytes), await putPart(begun, 2, bytes)];
      const other = await t.open();
      if (await refusesToResume(t, other, begun.token)) return;
      const upload = await other.resumeUpload(throughText(begun.token));
      expectEqual(
        [upload.key, upload.partSizeBytes],
        [begun.key, begun.partSizeBytes],
        'key and part size of the resumed upload',
      );
      const found = await upload.listParts();
      expectEqual(found.map(facts), sent.map(facts), 'parts of the resumed upload');
      const missing = await putPart(upload, 1, bytes);
      const receipts = [...found, missing].sort((a, b) => a.index - b.index);
      await expectInvisible(t, 'a', t.store);
      await expectObject(t, 'a', bytes, await complete(upload, receipts, bytes));
      await tryToResume(t);
    },
  ),

  check('resumeUpload: the first client may have closed its store', async (t) => {
    const bytes = t.random.bytes(t.partSizeBytes + 1);
    const first = await t.open();
    const begun = await t.beginUploadAt(first, 'a');
    await putPart(begun, 0, bytes);
    await first.close();
    if (await refusesToResume(t, t.store, begun.token)) return;
    const upload = await t.store.resumeUpload(begun.token);
    await putPart(upload, 1, bytes);
    await expectObject(t, 'a', bytes, await complete(upload, await upload.listParts(), bytes));
  }),

  check('resumeUpload: an upload that is completed or aborted is NotFound', async (t) => {
    const bytes = t.random.bytes(10);
    const completed = await t.beginUpload('completed');
    if (await refusesToResume(t, t.store, completed.token)) return;
    await complete(completed, [await putPart(completed, 0, bytes)], bytes);
    const aborted = await t.beginUpload('aborted');
    await putPart(aborted, 0, bytes);
    await aborted.abort();
    for (const { token, key } of [completed, aborted]) {
      await expectRejection(() => t.store.resumeUpload(token), 'NotFound', `resumeUpload of ${key}`);
    }
  }),

  check('resumeUpload: another client can abort', async (t) => {
    const bytes = t.random.bytes(10);
    const begun = await t.beginUpload('a');
    const receipts = [await putPart(begun, 0, bytes)];
    const other = await t.open();
    if (await refusesToResume(t, other, begun.token)) return;
    await (await other.resumeUpload(begun.token)).abort();
    await expectRejection(
      () => complete(begun, receipts, bytes),
      'NotFound',
      'complete after an abort by another client',
    );
    await expectInvisible(t, 'a', t.store);
  }),
];

/** A store that cannot resume must report that, for its own tokens as for any other. */
async function refusesToResume(t: Scratch, store: ObjectStore, token: string): Promise<boolean> {
  if (t.capabilities.resumesUploads) return false;
  await expectRejection(
    () => store.resumeUpload(token),
    'Unsupported',
    'resumeUpload in a store that cannot',
  );
  return true;
}

/** Passes a token through text, as the engine stores it. */
function throughText(token: string): string {
  return JSON.parse(new TextDecoder().decode(new TextEncoder().encode(JSON.stringify(token)))) as string;
}

function facts(part: PartReceipt): unknown[] {
  return [part.index, part.sizeBytes, part.etag];
}
