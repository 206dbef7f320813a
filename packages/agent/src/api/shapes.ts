/**
 * The bodies of requests and answers. Requests are checked by these shapes. The OpenAPI document is
 * made of them.
 */

import * as z from 'zod';

/** Most bytes of a request's body. */
export const BODY_BYTES_MAX = 16 * 1024 * 1024;
/** Most files of one save. */
export const FILES_MAX = 65_536;
/** The longest wait of one request. */
export const WAIT_MS_MAX = 10 * 60_000;
export const WAIT_MS_DEFAULT = 30_000;

const DAY_MS = 24 * 60 * 60_000;

const id = z.string().regex(/^[0-9a-f]{32}$/, 'is not 32 hex digits in lower case');
const uri = z.string().min(1).max(4096).describe('URI of a run, or an alias of the configuration');
const version = z.union([z.string().regex(/^\d{1,19}$/, 'is not a whole number'), z.int().min(0)]);
const bytes = z.int().min(0);
const metrics = z.record(z.string(), z.number());
const metadata = z.record(z.string(), z.string());
/** Numbers of a query arrive as text. */
const bytesInQuery = z.string().regex(/^\d{1,15}$/, 'is not a whole number of bytes');
const millisecondsInQuery = z.string().regex(/^\d{1,12}$/, 'is not a whole number of milliseconds');

const versionText = z.string().regex(/^\d+$/);
const checkpointId = z.object({ lineage: z.int(), epoch: z.int(), version: versionText });

export const problem = z
  .object({
    code: z.string(),
    message: z.string(),
    details: z.record(z.string(), z.unknown()),
    retryable: z.boolean(),
  })
  .meta({ id: 'Error' });

const path = z
  .string()
  .min(1)
  .max(4096)
  .refine((text) => !text.includes('\0'), 'has a zero byte, which no path can have');

const atPath = z.strictObject({
  path,
  offset: bytes.optional(),
  length: bytes.optional(),
  state: z
    .string()
    .max(100)
    .optional()
    .describe(
      'of a file that is not staged, as the trainer saw it: size, mtime and ctime in nanoseconds, with blanks between them; another state is SourceChanged',
    ),
});
const inMemory = z.strictObject({
  pid: z.int().min(1),
  fd: z.int().min(0),
  segment: z
    .string()
    .regex(/^[0-9a-f]{16}$/, 'is not 16 hex digits in lower case')
    .describe('the end of its name, which no other memory of the trainer has: holdfast-LIFE-SEGMENT'),
  offset: bytes.optional(),
  length: bytes,
});
export const sourceFile = z.strictObject({
  name: z.string().min(1).max(4096),
  source: z.union([atPath, inMemory]),
});
const files = z.array(sourceFile).max(FILES_MAX);
const directories = z
  .array(z.string().min(1).max(4096))
  .max(FILES_MAX)
  .describe('names of directories without a file in them');

export const joinRequest = z.strictObject({
  uri,
  attempt: z.string().min(1).max(256),
  life: id,
  index: z.int().min(0).default(0),
  count: z.int().min(1).default(1),
  pid: z.int().min(1),
  process: z
    .string()
    .max(100)
    .optional()
    .describe('pid, start in ticks, PID namespace and boot id of the trainer, with dashes between them'),
  clientVersion: z.string().max(64).optional(),
  runId: z
    .string()
    .min(1)
    .max(256)
    .optional()
    .describe(
      'as the answer to the first join of this life gave it: then a run that was begun again at the URI is refused (Fenced)',
    ),
  retention: z
    .record(z.string(), z.unknown())
    .optional()
    .describe('rules of the run, as the library takes them: keepLast, keepEvery, ...'),
});

export const saveRequest = z.strictObject({
  saveId: id,
  version,
  files,
  directories: directories.optional(),
  metrics: metrics.optional(),
  metadata: metadata.optional(),
  sealed: z.boolean().default(true),
  inOrder: z
    .boolean()
    .optional()
    .describe(
      'begins only when the earlier saves of this writer have ended, so it never commits before them',
    ),
  isRepeated: z
    .boolean()
    .optional()
    .describe(
      'an earlier agent may have had it, and this writer saved no other content under the version: if its sources are gone or changed, the store says whether it was saved',
    ),
  timeoutMs: z
    .int()
    .min(0)
    .max(7 * DAY_MS)
    .optional()
    .describe('from this request to the commit: then the save ends as failed or incomplete'),
});

export const sealRequest = z.strictObject({
  files: files.optional(),
  metrics: metrics.optional(),
  metadata: metadata.optional(),
});

export const saveQuery = z.strictObject({
  wait: z.enum(['staged', 'delivered', 'committed']).optional(),
  timeoutMs: millisecondsInQuery.optional(),
});

export const runQuery = z.strictObject({ uri });
export const versionsQuery = z.strictObject({
  uri,
  limit: z
    .string()
    .regex(/^\d{1,9}$/)
    .optional(),
});
const lineage = z
  .string()
  .regex(/^\d{1,9}$/)
  .optional();
const manifestKey = z
  .string()
  .min(1)
  .max(256)
  .optional()
  .describe('as an answer had it: another checkpoint of this number is NotFound');
export const versionQuery = z.strictObject({ uri, lineage, manifestKey });
export const fileQuery = z.strictObject({
  uri,
  version: z
    .string()
    .regex(/^(\d{1,19}|latest)$/, 'is neither a version nor "latest"')
    .default('latest'),
  lineage,
  name: z.string().min(1),
  manifestKey,
  offset: bytesInQuery.optional(),
  length: bytesInQuery.optional(),
});

const SHARDS_MAX = 65_536;
const shard = z
  .strictObject({
    index: z
      .int()
      .min(0)
      .max(SHARDS_MAX - 1),
    count: z.int().min(1).max(SHARDS_MAX),
    form: z.enum(['S4', 'S7']).default('S7'),
  })
  .refine(({ index, count }) => index < count, 'has an index that is not below its count');

export const restoreRequest = z
  .strictObject({
    restoreId: id,
    uri,
    version: z.union([version, z.literal('latest')]).default('latest'),
    lineage: lineage.describe('of the version: after a rollback, another one may have its number'),
    manifestKey,
    to: path,
    only: z.array(z.string()).optional(),
    onCorrupt: z.enum(['fail', 'fallback']).default('fail'),
    replace: z.union([z.boolean(), z.literal('everything')]).default(false),
    mtimes: z.boolean().default(false),
    shard: shard
      .optional()
      .describe("of ElasticDL: one server's share of the model, from any number of servers"),
    exportAs: z
      .literal('safetensors')
      .optional()
      .describe('of ElasticDL: the whole model as one file `to`, and a JSON beside it'),
  })
  .refine(({ shard, exportAs, only, onCorrupt, mtimes }) => {
    const kinds = (shard ? 1 : 0) + (exportAs ? 1 : 0);
    return kinds === 0 || (kinds === 1 && !only && onCorrupt === 'fail' && !mtimes);
  }, 'has shard or exportAs together with another of them, only, onCorrupt or mtimes')
  .refine(
    ({ lineage: ofVersion, manifestKey: key, version: which }) =>
      (ofVersion === undefined && key === undefined) || which !== 'latest',
    'has a lineage or a manifestKey without the number of a version',
  );
export const restoreQuery = z.strictObject({
  wait: z.enum(['restored']).optional(),
  timeoutMs: millisecondsInQuery.optional(),
});

const runId = z
  .string()
  .min(1)
  .max(256)
  .optional()
  .describe('of the run that the caller has joined: another one at the URI is refused (Fenced)');
export const annotateRequest = z.strictObject({
  uri,
  runId,
  version,
  metrics: metrics.optional(),
  metadata: metadata.optional(),
});
export const pinRequest = z.strictObject({ uri, runId, version, name: z.string().min(1).max(256) });
export const unpinQuery = z.strictObject({ uri, runId, version: versionText, name: z.string().min(1) });
export const electionRequest = z.strictObject({
  uri,
  trainer: z.string().min(1).max(255).describe('id of the trainer, which no other trainer has'),
  blockMs: z
    .int()
    .min(1)
    .max(7 * DAY_MS)
    .describe('how long no other trainer is elected'),
});
export const election = z.object({
  isGranted: z.boolean(),
  holder: z.string().describe('the trainer that is elected, or was last'),
});
export const preemptRequest = z.strictObject({ deadlineMs: z.int().min(0).max(DAY_MS) });

export const save = z
  .object({
    saveId: id,
    writerId: id,
    version: versionText,
    state: z.enum([
      'open',
      'accepted',
      'uploading',
      'delivered',
      'committed',
      'failed',
      'fenced',
      'incomplete',
      'outcomeUnknown',
      'cancelled',
    ]),
    durability: z.enum(['none', 'staged', 'committed']),
    sizeBytes: bytes,
    doneBytes: bytes,
    referencedBytes: bytes,
    id: checkpointId.nullable(),
    missingWriters: z.array(z.int()),
    error: problem.nullable(),
  })
  .meta({ id: 'Save' });

export const summary = z
  .looseObject({
    id: checkpointId,
    version: versionText,
    manifestKey: z
      .string()
      .describe('tells it from a checkpoint of the same number, as of a run that was begun again at the URI'),
    sizeBytes: bytes,
    storedBytes: bytes,
    fileCount: z.int(),
    metrics,
    state: z.enum(['live', 'retiring', 'quarantined']),
    isLatest: z.boolean(),
    pins: z.array(z.string()),
    committedAtMs: z.number(),
  })
  .meta({ id: 'Summary' });

export const details = z
  .looseObject({
    ...summary.shape,
    worldSize: z.int(),
    files: z.array(
      z.object({
        name: z.string(),
        sizeBytes: bytes,
        crc32c: z.int(),
        writer: z.int(),
        key: z.string(),
        mtimeMs: z.number().nullable(),
      }),
    ),
    directories: z.array(z.string()),
    metadata,
  })
  .meta({ id: 'Details' });

const stage = z.object({
  directory: z.string(),
  kind: z
    .enum(['tmpfs', 'disk', 'none'])
    .describe('none: nothing can be staged in the directory now, for the reason given'),
  reason: z.string(),
  freeBytes: bytes,
});

export const joined = z.object({
  writerId: id,
  epoch: z.int(),
  lineage: z.int(),
  tookOver: z.boolean(),
  runId: z.string().describe('of the run at the URI: one that is begun again there has another id'),
  latest: summary.nullable(),
  stage,
  limits: z.object({ bodyBytesMax: z.int(), filesMax: z.int(), waitMsMax: z.int() }),
});

export const writer = z
  .object({
    writerId: id,
    uri: z.string(),
    attempt: z.string(),
    index: z.int(),
    count: z.int(),
    pid: z.int(),
    isConnected: z.boolean(),
    saves: z.array(save),
  })
  .meta({ id: 'Writer' });

const newest = z.array(z.object({ uri: z.string(), version: versionText.nullable() }));

export const restore = z
  .object({
    restoreId: id,
    state: z.enum(['restoring', 'restored', 'failed']),
    version: versionText.nullable(),
    fileCount: z.int(),
    sizeBytes: bytes,
    skipped: z.array(z.object({ version: versionText, reason: z.string() })),
    suspicions: z.array(z.string()).describe('signs that a shard of ElasticDL was cut off'),
    error: problem.nullable(),
  })
  .meta({ id: 'Restore' });

export const versions = z.object({ versions: z.array(summary) });
export const health = z.object({
  status: z.enum(['ok', 'stopping']),
  version: z.string(),
  pid: z.int(),
});
export const status = z.object({
  version: z.string(),
  pid: z.int(),
  uptimeMs: z.number(),
  isStopping: z.boolean(),
  writers: z.array(writer),
  newest,
  memory: z.object({ totalBytes: bytes, usedBytes: bytes }),
  saveBytesPerSecondMax: bytes
    .nullable()
    .describe('the limit on what all saves together send, as it is now; null: no limit'),
  stage,
});
export const preempted = z.object({ newest, unfinished: z.array(save) });
export const nothing = z.strictObject({});

export type Join = z.infer<typeof joinRequest>;
export type SaveRequest = z.infer<typeof saveRequest>;
export type SealRequest = z.infer<typeof sealRequest>;
export type SourceFile = z.infer<typeof sourceFile>;
export type ElectionRequest = z.infer<typeof electionRequest>;
export type ElectionView = z.infer<typeof election>;
export type RestoreRequest = z.infer<typeof restoreRequest>;
export type SaveView = z.infer<typeof save>;
export type RestoreView = z.infer<typeof restore>;
export type WriterView = z.infer<typeof writer>;
export type StageView = z.infer<typeof stage>;
export type StatusView = z.infer<typeof status>;
export type Problem = z.infer<typeof problem>;

/** Reads a number that a query or a request holds as text. */
export function numberOf(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}
