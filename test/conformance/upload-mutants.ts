import { CheckpointError, type OpenUpload, type PartReceipt, type Upload } from '@holdfast/core/contract';
import { MemoryStore } from '@holdfast/core/store';
import { crc32c } from '@holdfast/testkit';
import { interruptible, later, type Mutant, type MutantParts, mutant, uploadMutant } from './mutant.ts';

function stateOf({ bucket }: MutantParts, upload: Upload) {
  const state = bucket.findUpload(upload.token);
  if (state === undefined) throw new CheckpointError('NotFound', 'no such upload');
  return state;
}

const INVISIBLE = 'upload: nothing is visible before complete, and all of it after';
const LIST_PARTS = 'listParts: the parts that the store has, in order, as the receipts said';
const WRONG_WHOLE =
  'complete: a wrong size or CRC32C of the whole is refused without effect, where checksums are verified';
const REPEATED = 'complete: repeated, it succeeds again or is NotFound, and changes nothing';
const ABORTED = 'abort: the upload is gone and leaves nothing; it is safe to repeat';

const partMutants: readonly Mutant[] = [
  uploadMutant(
    'joins parts as they came',
    'upload: many parts, sent in any order and at the same time, make one object',
    (upload, parts) => ({
      complete: async (_receipts, options) => {
        const sent = [...stateOf(parts, upload).parts.values()];
        const info = parts.bucket.insert(upload.key, Buffer.concat(sent.map((part) => part.bytes)));
        if (info === undefined || info.sizeBytes !== options.sizeBytes)
          throw new CheckpointError('Corrupt', upload.key);
        return info;
      },
    }),
  ),
  uploadMutant('takes no empty part', 'upload: one part only, full, short or empty', (upload) => ({
    putPart: async (index, bytes, options) => {
      if (index === 0 && bytes.byteLength === 0) throw new CheckpointError('InvalidArgument', 'empty');
      return upload.putPart(index, bytes, options);
    },
  })),
  uploadMutant(
    'takes no empty part at the end',
    'upload: the last part may be full, short or empty',
    (upload) => ({
      complete: async (receipts, options) => {
        if (receipts.at(-1)?.sizeBytes === 0) throw new CheckpointError('InvalidArgument', 'empty');
        return upload.complete(receipts, options);
      },
    }),
  ),
  mutant('makes an empty object at the beginning', INVISIBLE, ({ sound, bucket }) => ({
    beginUpload: (key, options) => {
      bucket.insert(key, new Uint8Array());
      return sound.beginUpload(key, options);
    },
  })),
  uploadMutant('shows the object once the last part is there', INVISIBLE, (upload, { bucket }) => ({
    putPart: async (index, bytes, options) => {
      if (index > 0) bucket.insert(upload.key, bytes.slice());
      return upload.putPart(index, bytes, options);
    },
  })),
  uploadMutant(
    'shows an object that grows',
    'complete: no reader sees a part of the object',
    (upload, parts) => ({
      complete: async (receipts) => {
        const { parts: sent } = stateOf(parts, upload);
        const all = Buffer.concat(
          receipts.map((receipt) => sent.get(receipt.index)?.bytes ?? new Uint8Array()),
        );
        parts.bucket.insert(upload.key, all.subarray(0, upload.partSizeBytes));
        await later();
        parts.bucket.damage(upload.key, () => new Uint8Array(all));
        return parts.sound.head(upload.key);
      },
    }),
  ),
  uploadMutant(
    'keeps the first part it gets',
    'putPart: a part that is sent again replaces the first',
    (upload, parts) => ({
      putPart: async (index, bytes, options) => {
        const earlier = (await upload.listParts()).find((part) => part.index === index);
        return earlier ?? upload.putPart(index, bytes, options);
      },
      complete: (receipts) => {
        const { parts: sent } = stateOf(parts, upload);
        const all = Buffer.concat(
          receipts.map((receipt) => sent.get(receipt.index)?.bytes ?? new Uint8Array()),
        );
        return upload.complete(receipts, { sizeBytes: all.byteLength, crc32c: crc32c(all) });
      },
    }),
  ),
  uploadMutant(
    'keeps the memory of the caller',
    'putPart: the caller may use its buffer again once the call has ended, and it may be a view',
    (upload, parts) => ({
      putPart: async (index, bytes, options) => {
        const receipt = await upload.putPart(index, bytes, options);
        stateOf(parts, upload).parts.set(index, { bytes, etag: receipt.etag, crc32c: options.crc32c });
        return receipt;
      },
    }),
  ),
  uploadMutant('lists parts as they came', LIST_PARTS, (upload, parts) => ({
    listParts: async () =>
      [...stateOf(parts, upload).parts].map(([index, { bytes, etag }]) => ({
        index,
        sizeBytes: bytes.byteLength,
        etag,
      })),
  })),
  uploadMutant('lists parts with a wrong checksum', LIST_PARTS, (upload) => ({
    listParts: async () => (await upload.listParts()).map((part) => ({ ...part, crc32c: 0 })),
  })),
];

const completeMutants: readonly Mutant[] = [
  uploadMutant('does not look at the checksum of the whole', WRONG_WHOLE, (upload, parts) => ({
    complete: async (receipts, options) => {
      const lax = new MemoryStore(parts.bucket, { capabilities: { verifiesChecksums: false } });
      return (await lax.resumeUpload(upload.token)).complete(receipts, options);
    },
  })),
  uploadMutant('does not look at the size of the whole', WRONG_WHOLE, (upload) => ({
    complete: (receipts, options) => {
      const sizeBytes = receipts.reduce((sum, receipt) => sum + receipt.sizeBytes, 0);
      return upload.complete(receipts, { ...options, sizeBytes });
    },
  })),
  uploadMutant('loses the parts when it refuses', WRONG_WHOLE, (upload) => ({
    complete: (receipts, options) =>
      upload.complete(receipts, options).catch(async (error) => {
        await upload.abort();
        throw error;
      }),
  })),
  uploadMutant('completes an upload only once and then fails in its own way', REPEATED, (upload) => ({
    complete: (receipts, options) =>
      upload.complete(receipts, options).catch(() => {
        throw new CheckpointError('Unexpected', 'no such upload');
      }),
  })),
  uploadMutant('changes the object when it is completed again', REPEATED, (upload, { bucket, sound }) => ({
    complete: async (receipts, options) => {
      if (bucket.find(upload.key) === undefined) return upload.complete(receipts, options);
      bucket.damage(upload.key, (bytes) => bytes.fill(0));
      return sound.head(upload.key);
    },
  })),
  mutant(
    'keeps the parts of all uploads together',
    'uploads of different keys at the same time do not mix',
    ({ bucket, sound }) => {
      const parts = new Map();
      return {
        beginUpload: async (key, options) => {
          const upload = await sound.beginUpload(key, options);
          Object.assign(bucket.findUpload(upload.token) ?? {}, { parts });
          return upload;
        },
      };
    },
  ),
];

const abortMutants: readonly Mutant[] = [
  uploadMutant('does not abort', ABORTED, () => ({ abort: () => Promise.resolve() })),
  uploadMutant('cannot abort twice', ABORTED, (upload) => ({
    abort: async () => {
      await upload.listParts();
      await upload.abort();
    },
  })),
  uploadMutant(
    'does not abort while parts are on their way',
    'abort: while parts are being sent, every call ends and nothing becomes visible',
    (upload) => {
      let sending = 0;
      let wasSpared = false;
      return {
        putPart: async (...args) => {
          sending++;
          await later();
          return upload.putPart(...args).finally(() => {
            sending--;
          });
        },
        abort: async () => {
          if (sending === 0 && !wasSpared) await upload.abort();
          wasSpared = true;
        },
      };
    },
  ),
  uploadMutant(
    'deletes the object on abort',
    'abort: after complete it does not undo it',
    (upload, { bucket }) => ({
      abort: async () => {
        await upload.abort();
        bucket.remove(upload.key);
      },
    }),
  ),
];

const RESUMES = 'resumeUpload: another client finds the parts by the token, sends the rest and completes';

const resumeMutants: readonly Mutant[] = [
  mutant('cannot resume, but claims that it can', RESUMES, () => ({
    resumeUpload: () => Promise.reject(new CheckpointError('Unsupported', 'no')),
  })),
  mutant(
    'resumes, but claims that it cannot',
    RESUMES,
    ({ sound }) => ({ resumeUpload: (...args) => sound.resumeUpload(...args) }),
    { capabilities: { resumesUploads: false }, soundCapabilities: { resumesUploads: true } },
  ),
  mutant('forgets the parts of a resumed upload', RESUMES, ({ sound, bucket }) => ({
    resumeUpload: async (...args) => {
      const upload = await sound.resumeUpload(...args);
      bucket.findUpload(upload.token)?.parts.clear();
      return upload;
    },
  })),
  mutant(
    'aborts its uploads when it is closed',
    'resumeUpload: the first client may have closed its store',
    ({ sound, bucket }) => {
      const tokens: string[] = [];
      return {
        beginUpload: async (...args) => {
          const upload = await sound.beginUpload(...args);
          tokens.push(upload.token);
          return upload;
        },
        close: async () => {
          for (const token of tokens) bucket.endUpload(token);
        },
      };
    },
  ),
  mutant(
    'resumes anything',
    'resumeUpload: an upload that is completed or aborted is NotFound',
    ({ sound }) => ({
      resumeUpload: (token) =>
        sound.resumeUpload(token).catch(() => sound.beginUpload('a/new/one', { partSizeBytes: 10 })),
    }),
  ),
  mutant('aborts only its own uploads', 'resumeUpload: another client can abort', ({ sound }) => ({
    resumeUpload: async (token) =>
      Object.assign(await sound.resumeUpload(token), { abort: () => Promise.resolve() }),
  })),
];

const FIRED = 'signals: a call whose signal has fired is Aborted and has no effect';
const UNDER_WAY =
  'get, head, list, deleteMany: a signal that fires under way ends the call as Aborted, or it has succeeded';
const CLOSE = 'close: safe to repeat, ends what is under way, and leaves other clients alone';

function isAborted(): CheckpointError {
  return new CheckpointError('Aborted', 'stopped');
}

const signalMutants: readonly Mutant[] = [
  mutant('does not look at a signal', FIRED, ({ sound }) => ({ head: (key) => sound.head(key) })),
  mutant('deletes in spite of the signal', FIRED, ({ sound }) => ({
    deleteMany: async (keys, options) => {
      const results = await sound.deleteMany(keys);
      if (options?.signal?.aborted) throw isAborted();
      return results;
    },
  })),
  mutant(
    'goes on reading into the buffer',
    'readInto: after a signal has stopped it, the buffer is not written any more',
    ({ sound }) => ({
      readInto: async (key, offset, buffer, options) => {
        const read = later().then(() => sound.readInto(key, offset, buffer));
        await interruptible(options?.signal).catch(() => {
          throw isAborted();
        });
        return read;
      },
    }),
  ),
  mutant(
    'goes on reading from the buffer',
    'create: after a signal has stopped it, the bytes are not read any more',
    ({ sound }) => ({
      create: async (key, bytes, options) => {
        const created = later().then(() => sound.create(key, bytes));
        await interruptible(options?.signal).catch(() => {
          throw isAborted();
        });
        return created;
      },
    }),
  ),
  uploadMutant(
    'goes on reading a part from the buffer',
    'putPart: after a signal has stopped it, the bytes are not read any more',
    (upload, parts) => ({
      putPart: async (index, bytes, options) => {
        if (options.signal === undefined) return upload.putPart(index, bytes, options);
        const stored = later().then(() => {
          const earlier = stateOf(parts, upload).parts.get(index);
          const etag = earlier?.etag ?? parts.bucket.nextEtag();
          stateOf(parts, upload).parts.set(index, { bytes: bytes.slice(), etag, crc32c: options.crc32c });
          return { index, sizeBytes: bytes.byteLength, etag } satisfies PartReceipt;
        });
        await interruptible(options.signal).catch(() => {
          throw isAborted();
        });
        return stored;
      },
    }),
  ),
  mutant("passes the platform's AbortError on", UNDER_WAY, ({ sound }) => ({
    get: async (key, options) => {
      await interruptible(options.signal, 1000);
      return sound.get(key, options);
    },
  })),
  mutant(
    'looks at the signal for the first page only',
    'list: a signal that fires between pages ends the listing as Aborted',
    ({ sound }) => ({ list: (prefix, options) => sound.list(prefix, { startAfter: options?.startAfter }) }),
    { capabilities: { maxListKeys: 1 } },
  ),
  mutant('cannot be closed twice', CLOSE, () => {
    let isClosed = false;
    return {
      close: async () => {
        if (isClosed) throw new CheckpointError('InvalidArgument', 'closed');
        isClosed = true;
      },
    };
  }),
  mutant('works on after close', CLOSE, () => ({ close: () => Promise.resolve() })),
];

const SHOWN = 'listUploads: an upload is shown from when it was begun until it is completed or aborted';
const UPLOAD_PREFIX =
  'listUploads: a prefix is a text, and each upload whose key starts with it is shown once';
const LISTED_TOKEN = 'listUploads: by its token another client lists the parts of an upload and aborts it';

/** A store that lists its uploads in its own way. */
function listingMutant(
  name: string,
  breaks: string,
  uploadsOf: (all: readonly OpenUpload[], prefix: string) => readonly OpenUpload[],
): Mutant {
  return mutant(name, breaks, ({ sound }) => ({
    listUploads: async function* (prefix) {
      const all: OpenUpload[] = [];
      for await (const upload of sound.listUploads?.('') ?? []) all.push(upload);
      yield* uploadsOf(all, prefix);
    },
  }));
}

function below(all: readonly OpenUpload[], prefix: string): OpenUpload[] {
  return all.filter(({ key }) => key.startsWith(prefix));
}

const listingMutants: readonly Mutant[] = [
  mutant('goes on showing uploads that have ended', SHOWN, ({ sound }) => {
    const begun: OpenUpload[] = [];
    return {
      beginUpload: async (key, options) => {
        const upload = await sound.beginUpload(key, options);
        begun.push({ key, token: upload.token, beganAtMs: Date.now() });
        return upload;
      },
      listUploads: async function* (prefix) {
        yield* below(begun, prefix);
      },
    };
  }),
  listingMutant('shows uploads that have parts', SHOWN, (all, prefix) =>
    below(all, prefix).filter(({ sizeBytes }) => sizeBytes !== 0),
  ),
  listingMutant('tells in seconds when an upload was begun', SHOWN, (all, prefix) =>
    below(all, prefix).map((upload) => ({ ...upload, beganAtMs: upload.beganAtMs / 1000 })),
  ),
  listingMutant('takes the prefix of uploads for a whole key', UPLOAD_PREFIX, (all, prefix) =>
    all.filter(({ key }) => key === prefix),
  ),
  listingMutant("drops the slash of uploads' prefix", UPLOAD_PREFIX, (all, prefix) =>
    below(all, prefix.replace(/\/$/, '')),
  ),
  listingMutant('shows an upload on two pages', UPLOAD_PREFIX, (all, prefix) => [
    ...below(all, prefix),
    ...below(all, prefix).slice(-1),
  ]),
  listingMutant('shows tokens that nobody takes', LISTED_TOKEN, (all, prefix) =>
    below(all, prefix).map((upload) => ({ ...upload, token: upload.key })),
  ),
  mutant('forgets parts of uploads it has listed', LISTED_TOKEN, ({ sound, bucket }) => ({
    resumeUpload: async (...args) => {
      const upload = await sound.resumeUpload(...args);
      bucket.findUpload(upload.token)?.parts.clear();
      return upload;
    },
  })),
];

export const uploadMutants: readonly Mutant[] = [
  ...partMutants,
  ...completeMutants,
  ...abortMutants,
  ...resumeMutants,
  ...listingMutants,
  ...signalMutants,
];
