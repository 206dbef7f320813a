/** The options that the calls of a manager and its checkpoints accept: one rule per option. */

import type {
  AnnotateOptions,
  CheckpointId,
  CheckpointReference,
  CommitMeta,
  CommitWaitOptions,
  ConsistencyOptions,
  JoinOptions,
  ListCheckpointsOptions,
  MirrorOptions,
  RestoreOptions,
  SaveOptions,
  StaleOptions,
  VerifyOptions,
  VersionInput,
  WaitOptions,
} from '../contract/checkpoint-manager.ts';
import {
  abortSignal,
  anyText,
  byteArray,
  callback,
  checkSome,
  duration,
  flag,
  having,
  listOf,
  notAccepted,
  oneOf,
  optional,
  plainObject,
  type Rule,
  type Rules,
  recordOf,
  rule,
  someOf,
  text,
  wholeNumber,
} from '../contract/checks.ts';
import type { ExportTensorsOptions } from '../contract/exporting.ts';
import type { InputStreamOptions } from '../contract/files.ts';
import type {
  DiffOptions,
  ForkOptions,
  InspectOptions,
  LeaseOptions,
  LocateOptions,
  RollbackOptions,
} from '../contract/history.ts';
import { LIFE_ACCEPTED, lifeProblem } from '../contract/life.ts';
import type { CallOptions } from '../contract/object-store.ts';
import type { OverviewOptions } from '../contract/overview.ts';
import {
  HISTORY_MS_MAX,
  LEASE_TTL_MS_MAX,
  LEASE_TTL_MS_MIN,
  WATCH_INTERVAL_MS_MAX,
  WATCH_INTERVAL_MS_MIN,
} from '../contract/ranges.ts';
import type { CollectOptions } from '../contract/retention.ts';
import type { LogOptions } from '../contract/run-manager.ts';
import { SETTINGS } from '../contract/settings.ts';
import type { RebuildOptions } from '../contract/upkeep.ts';
import { toReference, toVersion } from '../format/index.ts';
import { isReason, REASON_LENGTH_MAX } from '../plan/reason.ts';
import { checkWriter } from './run/index.ts';

const LOG_LIMIT_MAX = 1000;

export const version: Rule = (_, value) => void toVersion(value as VersionInput);
const versionOrLatest: Rule = (name, value) => {
  if (value !== 'latest') version(name, value);
};
const reference: Rule = (_, value) => void toReference(value as CheckpointReference);
export const referenceOrLatest: Rule = (name, value) => {
  if (value !== 'latest') reference(name, value);
};
export const writer: Rule = (name, value) => {
  plainObject(name, value);
  checkWriter(value as Parameters<typeof checkWriter>[0]);
};
export const attempt: Rule = rule(
  (value) =>
    typeof value === 'string' && value.trim() !== '' && value.length <= 256 && !value.startsWith('drawn-'),
  '1 to 256 characters, not only spaces, that do not begin with "drawn-"',
);
/**
 * Rejects "parent": the command line replaces this word by an id. Taken literally, it would give
 * all trainers the same life.
 */
export const life: Rule = rule(
  (value) => typeof value === 'string' && lifeProblem(value) === null && value !== 'parent',
  `${LIFE_ACCEPTED}, and not "parent"`,
);
export const runId: Rule = rule(
  (value) => typeof value === 'string' && value.trim() !== '' && value.length <= 256,
  'the id of a run, 1 to 256 characters, not only spaces',
);
const reason: Rule = rule(
  (value) => isReason(value) && value.isWellFormed(),
  `1 to ${REASON_LENGTH_MAX} characters, not only spaces`,
);
/** Accepts any value. `capture.ts` and `rollback.ts` check it together with other options. */
const checkedThere: Rule = () => undefined;
const isTarget = (value: unknown) => typeof (value as { publish?: unknown } | null)?.publish === 'function';
const directoryOrTarget: Rule = (name, value) => {
  if (typeof value === 'string') return text(name, value);
  if (!isTarget(value)) throw notAccepted(name, value, 'a directory or a target');
  having('open', 'publish', 'discard')(name, value);
};
const replace: Rule = optional(oneOf(true, false, 'everything'));
/**
 * A directory, buffers by file name, or a target. Whether a buffer fits depends on its file and is
 * not checked here.
 */
const destination: Rule = (name, value) => {
  if (typeof value === 'string' || isTarget(value)) return directoryOrTarget(name, value);
  plainObject(name, value);
  if (Object.keys(value as object).length === 0)
    throw notAccepted(name, value, 'a directory, buffers by the names of files, or a target');
  recordOf(byteArray)(name, value);
};

const call: Rules<CallOptions> = { signal: optional(abortSignal) };
const wait: Rules<WaitOptions> = { ...call, onProgress: optional(callback) };
const commitWait: Rules<CommitWaitOptions> = {
  ...wait,
  timeoutMs: optional(duration(0, SETTINGS.commitTimeoutMs.max)),
};
const meta: Rules<CommitMeta> = { metrics: optional(plainObject), metadata: optional(plainObject) };
const stale: Rules<StaleOptions> = {
  onStale: optional(oneOf('warn', 'fail', 'off')),
  shouldChange: optional(listOf(text)),
};
const consistency: Rules<ConsistencyOptions> = {
  consistency: optional(oneOf('paused', 'polluted')),
  stateVersion: checkedThere,
  pause: optional(callback),
  pauseTimeoutMs: optional(wholeNumber(1, SETTINGS.commitTimeoutMs.max)),
};
export const dedupe: Rule = optional(oneOf('auto', 'off'));

const collect: Rules<CollectOptions> = {
  ...wait,
  policy: optional(plainObject),
  force: optional(flag),
  reason: optional(reason),
};

const commitId: Rule = (name, value) => {
  plainObject(name, value);
  const id = value as CheckpointId;
  checkSome(id, { version, lineage: wholeNumber(0), epoch: wholeNumber(0) }, name);
};

interface VersionOptions {
  readonly version?: VersionInput | undefined;
}

function rules<T>(of: Rules<T>): Rules<T> {
  return of;
}

export const CALL_RULES = {
  call,
  wait,
  join: rules<JoinOptions>({ ...wait, writer: optional(writer) }),
  list: rules<ListCheckpointsOptions>({ ...call, limit: optional(wholeNumber(1)) }),
  save: rules<SaveOptions>({
    ...commitWait,
    ...meta,
    ...stale,
    ...consistency,
    version: optional(version),
    dir: optional(text),
    exclude: optional(listOf(text)),
    links: optional(oneOf('refuse', 'skip', 'follow')),
    files: optional(plainObject),
    buffers: optional(recordOf(byteArray)),
    writer: optional(writer),
    noWait: optional(flag),
    staging: optional(having('stage')),
    dedupe,
  }),
  commit: rules<CommitWaitOptions & VersionOptions>({ ...commitWait, version: optional(version) }),
  commitCheckpoint: rules<CommitMeta & CommitWaitOptions & StaleOptions>({
    ...commitWait,
    ...meta,
    ...stale,
  }),
  openInputStream: rules<InputStreamOptions>({
    offsetBytes: optional(wholeNumber(0)),
    lengthBytes: optional(wholeNumber(0)),
    memory: optional(callback),
  }),
  restore: rules<RestoreOptions>({
    ...wait,
    version: optional(referenceOrLatest),
    to: destination,
    only: optional(someOf(text)),
    mtimes: optional(flag),
    replace,
    onCorrupt: optional(oneOf('fail', 'fallback')),
  }),
  mirror: rules<MirrorOptions>({
    ...wait,
    versions: optional(listOf(version)),
    since: optional(version),
    latest: optional(flag),
    onCorrupt: optional(oneOf('fail', 'skip')),
    watchIntervalMs: optional(duration(WATCH_INTERVAL_MS_MIN, WATCH_INTERVAL_MS_MAX)),
  }),
  fork: rules<ForkOptions>({ ...wait, version: optional(versionOrLatest) }),
  rollback: rules<RollbackOptions>({ ...wait, to: reference, reason: checkedThere }),
  diff: rules<DiffOptions>({ ...wait, tensors: optional(flag) }),
  inspect: rules<InspectOptions>({ ...wait, version: optional(referenceOrLatest) }),
  exportTensors: rules<ExportTensorsOptions>({
    ...wait,
    version: optional(referenceOrLatest),
    to: directoryOrTarget,
    replace,
    from: optional(someOf(text)),
    prefix: optional(anyText),
    layout: optional(oneOf('safetensors', 'distcp')),
    also: optional(listOf(text)),
    fileBytesMax: optional(wholeNumber(1, Number.MAX_SAFE_INTEGER)),
  }),
  locate: rules<LocateOptions>({ ...wait, version: optional(referenceOrLatest) }),
  lease: rules<LeaseOptions>({
    ...wait,
    version: optional(referenceOrLatest),
    ttlMs: wholeNumber(LEASE_TTL_MS_MIN, LEASE_TTL_MS_MAX),
    reader: optional(anyText),
  }),
  leases: rules<WaitOptions & { version?: CheckpointReference | undefined }>({
    ...wait,
    version: optional(reference),
  }),
  verify: rules<VerifyOptions>({
    ...wait,
    version: optional(referenceOrLatest),
    level: optional(oneOf(0, 1, 2)),
    record: optional(flag),
    quarantine: optional(flag),
  }),
  log: rules<LogOptions>({
    ...call,
    limit: optional(wholeNumber(1, LOG_LIMIT_MAX)),
    commitOf: optional(commitId),
  }),
  overview: rules<OverviewOptions>({
    ...call,
    historyMs: optional(wholeNumber(1, HISTORY_MS_MAX)),
    findVerification: optional(flag),
    findRollback: optional(flag),
    listBegun: optional(flag),
  }),
  annotate: rules<AnnotateOptions>({ ...wait, ...meta }),
  collect,
  /** A plan accepts what `collect` accepts, so that both can be called with the same options. */
  planRetention: collect,
  rebuild: rules<RebuildOptions>({ ...wait, skip: optional(listOf(text)) }),
} as const;
