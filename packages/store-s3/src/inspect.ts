/** What the settings of a bucket mean for checkpoints. */

import { elementsOf, fact, requestRateFact, textOf } from '@holdfast/cloud-http';
import type { StoreFact } from '@holdfast/core/contract';
import { countOf, documentOf, flagOf } from './answers.ts';
import type { S3Connection } from './client.ts';
import type { S3Config } from './config.ts';
import { foreignSuccess, S3Refusal } from './errors.ts';
import {
  type LifecycleRule,
  lifecycleFacts,
  lifecycleRules,
  noncurrentRule,
  type SettingAnswer,
} from './lifecycle.ts';

interface Question<T> {
  /** Permission that the request needs. */
  readonly permission: string;
  /** Query that asks for the setting. */
  readonly query: string;
  /** Value of the setting in the answer. */
  readonly read: (xml: string) => T | undefined;
}

/**
 * Throws `NotFound` if there is no such bucket. A setting that we must not read, or that the store
 * does not report, becomes a fact that says so. Sends six requests at once.
 */
export async function inspectBucket(
  connection: S3Connection,
  config: S3Config,
  signal: AbortSignal | undefined,
): Promise<readonly StoreFact[]> {
  // Find the region first, so that each of the other requests is signed for it.
  const region = await regionOf(connection, config, signal);
  const told = <T>(question: Question<T>) => tell(connection, question, signal);
  const [versioning, lock, rules, encryption, isPublic] = await Promise.all([
    told({
      permission: 's3:GetBucketVersioning',
      query: 'versioning',
      read: (xml) => textOf(xml, 'Status'),
    }),
    told({ permission: 's3:GetBucketObjectLockConfiguration', query: 'object-lock', read: lockOf }),
    told({ permission: 's3:GetLifecycleConfiguration', query: 'lifecycle', read: lifecycleRules }),
    told({ permission: 's3:GetEncryptionConfiguration', query: 'encryption', read: encryptionOf }),
    told({
      permission: 's3:GetBucketPolicyStatus',
      query: 'policyStatus',
      read: (xml) => flagOf(xml, 'IsPublic'),
    }),
  ]);
  return [
    ...region.facts,
    versioningFact(versioning, rules, config),
    lockFact(lock, config),
    ...lifecycleFacts(rules, { root: config.root, isMinio: region.isMinio }),
    encryptionFact(encryption, config),
    accessFact(isPublic),
    ...requestRateFacts(config),
  ];
}

/** Answers by which S3 says that a setting is absent. */
const NOTHING_SET = [
  'NoSuchBucketPolicy',
  'NoSuchLifecycleConfiguration',
  'ObjectLockConfigurationNotFoundError',
  'ServerSideEncryptionConfigurationNotFoundError',
  'VersioningNotConfigured', // versitygw 1.7
];

async function tell<T>(
  connection: S3Connection,
  { permission, query, read }: Question<T>,
  signal: AbortSignal | undefined,
): Promise<SettingAnswer<T>> {
  try {
    const answer = await connection.send({
      operation: 'other',
      method: 'GET',
      query: { [query]: '' },
      isRepeatable: true,
      signal,
    });
    return { value: read(documentOf(answer, /(Configuration|PolicyStatus)$/)) };
  } catch (error) {
    if (!(error instanceof S3Refusal) || error.code === 'NoSuchBucket') throw error;
    const { code, status } = error;
    if (NOTHING_SET.includes(code)) return { value: undefined };
    if (isNotPermitted(error)) return { untold: `not readable: it needs ${permission}` };
    // Errors that concern the whole request, not one setting: invalid credentials, or a temporary
    // failure that the caller can retry.
    const isOfAll = status === 401 || status === 403 || status === 429 || (status >= 500 && status !== 501);
    if (isOfAll) throw error;
    // Stores without such a setting report that in many ways.
    return { untold: `this store does not report it (${code === '' ? `HTTP ${status}` : code})` };
  }
}

function isNotPermitted({ code, status }: S3Refusal): boolean {
  return code === 'AccessDenied' || (code === '' && status === 403);
}

async function regionOf(
  connection: S3Connection,
  { region }: S3Config,
  signal: AbortSignal | undefined,
): Promise<{ facts: StoreFact[]; isMinio: boolean }> {
  const { headers } = await headBucket(connection, signal).catch(orItsHeaders);
  const isMinio = /^minio/i.test(headers['server'] ?? '');
  const found = headers['x-amz-bucket-region'];
  if (found === undefined) return { facts: [], isMinio }; // Other stores usually have none.
  const isRight = region === undefined ? !connection.wasMoved : region === found;
  if (isRight) return { facts: [fact('region', 'region', found)], isMinio };
  const meaning = 'the first request of every process is sent twice, because another region is set';
  const advice = `set region=${found} in the URI`;
  return { facts: [fact('region', 'region', found, meaning, advice)], isMinio };
}

async function headBucket(
  connection: S3Connection,
  signal: AbortSignal | undefined,
): Promise<{ headers: Readonly<Record<string, string>> }> {
  const answer = await connection.send({ operation: 'other', method: 'HEAD', isRepeatable: true, signal });
  if (answer.headers['x-amz-request-id'] === undefined) throw foreignSuccess(answer);
  return answer;
}

/** A refusal also contains the region. */
function orItsHeaders(error: unknown): { headers: Readonly<Record<string, string>> } {
  if (!(error instanceof S3Refusal) || !isNotPermitted(error)) throw error;
  return { headers: error.region === undefined ? {} : { 'x-amz-bucket-region': error.region } };
}

function versioningFact(
  versioning: SettingAnswer<string>,
  rules: SettingAnswer<readonly LifecycleRule[]>,
  { root }: S3Config,
): StoreFact {
  if ('untold' in versioning) return fact('versioning', 'versioning', versioning.untold);
  if (versioning.value === undefined) return fact('versioning', 'versioning', 'off');
  const isSuspended = versioning.value === 'Suspended';
  if (isSuspended)
    return fact('versioning', 'versioning', 'suspended: objects that are removed now are gone');
  const rule = 'untold' in rules ? undefined : noncurrentRule(rules.value ?? [], root);
  if (rule !== undefined) return fact('versioning', 'versioning', `on; ${rule}`);
  return fact(
    'versioning',
    'versioning',
    'untold' in rules ? 'on; it is not known whether a rule removes noncurrent versions' : 'on',
    'removed objects stay as noncurrent versions, and are billed',
    'add a lifecycle rule for this prefix with NoncurrentVersionExpiration, or suspend versioning',
  );
}

interface Lock {
  readonly isEnabled: boolean;
  readonly mode: string | undefined;
  readonly days: number | undefined;
  readonly years: number | undefined;
}

function lockOf(xml: string): Lock {
  return {
    isEnabled: textOf(xml, 'ObjectLockEnabled') === 'Enabled',
    mode: textOf(xml, 'Mode'),
    days: countOf(xml, 'Days'),
    years: countOf(xml, 'Years'),
  };
}

function lockFact(lock: SettingAnswer<Lock>, { checksum }: S3Config): StoreFact {
  const [id, title] = ['object-lock', 'object lock'];
  if ('untold' in lock) return fact(id, title, lock.untold);
  if (lock.value?.isEnabled !== true) return fact(id, title, 'off');
  if (checksum === 'none')
    return fact(
      id,
      title,
      'on',
      'the bucket refuses objects without a checksum, and the URI switches checksums off',
      'remove checksum=none from the URI',
    );
  const { mode, days, years } = lock.value;
  const period = days !== undefined ? plural(days, 'day') : years !== undefined ? plural(years, 'year') : '';
  if (period === '') return fact(id, title, 'on, without a default retention');
  return fact(
    id,
    title,
    `each object is kept for ${period} (${mode ?? 'mode not known'})`,
    `removed objects are hidden, but their bytes stay and are billed for ${period}, including leases and old catalog entries`,
    'use a bucket without default retention, unless you want this',
  );
}

interface Encryption {
  readonly algorithm: string | undefined;
  readonly keyId: string | undefined;
  readonly hasBucketKey: boolean;
}

/** Reads the first rule. S3 has only one. */
function encryptionOf(xml: string): Encryption | undefined {
  const [rule] = elementsOf(xml, 'Rule');
  if (rule === undefined) return undefined;
  return {
    algorithm: textOf(rule, 'SSEAlgorithm'),
    keyId: textOf(rule, 'KMSMasterKeyID'),
    hasBucketKey: flagOf(rule, 'BucketKeyEnabled') ?? false,
  };
}

function encryptionFact(rule: SettingAnswer<Encryption>, { customerKey, encryption }: S3Config): StoreFact {
  const [id, title] = ['encryption', 'encryption'];
  if (customerKey !== undefined) return fact(id, title, 'by the key of HOLDFAST_S3_CUSTOMER_KEY');
  if (encryption !== undefined) return fact(id, title, `${encryption}, as the URI says`);
  if ('untold' in rule) return fact(id, title, rule.untold);
  const { algorithm, keyId, hasBucketKey = false } = rule.value ?? {};
  if (algorithm === undefined) return fact(id, title, 'none by default');
  if (!algorithm.startsWith('aws:kms')) return fact(id, title, `${algorithm} by default`);
  const seen = `${algorithm} by default, ${keyId === undefined ? "the account's key" : 'a key of its own'}`;
  if (hasBucketKey) return fact(id, title, seen);
  return fact(
    id,
    title,
    `${seen}, no bucket key`,
    'every object that is written or read costs a request to KMS, which is billed and throttled',
    'enable the S3 Bucket Key of the bucket',
  );
}

function accessFact(isPublic: SettingAnswer<boolean>): StoreFact {
  if ('untold' in isPublic) return fact('access', 'access', isPublic.untold);
  if (isPublic.value !== true) return fact('access', 'access', 'no policy makes it public');
  return fact(
    'access',
    'access',
    'public by its policy',
    'the checkpoints are open to the public, as far as the policy of the bucket allows',
    'remove the public statement from the policy, or block public access',
  );
}

function plural(count: number, noun: string): string {
  return count === 1 ? `1 ${noun}` : `${count} ${noun}s`;
}

/** AWS, "Best practices design patterns: optimizing Amazon S3 performance". */
export function requestRateFacts({ endpoint }: Pick<S3Config, 'endpoint'>): StoreFact[] {
  if (endpoint !== undefined) return []; // Other servers have other limits.
  return [requestRateFact(3500, 'below one prefix, until S3 has split it')];
}
