/** What a bucket's settings mean for checkpoints. */

import { daysText, fact, HttpRefusal, requestRateFact } from '@holdfast/cloud-http';
import type { StoreFact } from '@holdfast/core/contract';
import { type GcsConfig, GOOGLE } from './config.ts';
import { isMissingBucket } from './errors.ts';
import { lifecycleFacts, noncurrentRule } from './lifecycle.ts';
import type { GcsObjects } from './objects.ts';

const FIELDS =
  'versioning,softDeletePolicy,retentionPolicy,defaultEventBasedHold,objectRetention,lifecycle,autoclass,location,locationType,storageClass,billing,iamConfiguration,encryption';

/** Required permissions. Multipart uploads need further ones. */
const PERMISSIONS = [
  'storage.objects.create',
  'storage.objects.get',
  'storage.objects.list',
  'storage.objects.delete',
];
const PERMISSIONS_OF_PARTS = [
  'storage.multipartUploads.create',
  'storage.multipartUploads.listParts',
  'storage.multipartUploads.abort',
];

const DAY_S = 86_400;

/** Fields of the JSON API's answer. Any may be missing. */
interface Bucket {
  readonly versioning?: { readonly enabled?: boolean };
  readonly softDeletePolicy?: { readonly retentionDurationSeconds?: string };
  readonly retentionPolicy?: { readonly retentionPeriod?: string; readonly isLocked?: boolean };
  readonly defaultEventBasedHold?: boolean;
  readonly objectRetention?: { readonly mode?: string };
  readonly lifecycle?: { readonly rule?: readonly unknown[] };
  readonly autoclass?: { readonly enabled?: boolean; readonly terminalStorageClass?: string };
  readonly location?: string;
  readonly locationType?: string;
  readonly storageClass?: string;
  readonly billing?: { readonly requesterPays?: boolean };
  readonly iamConfiguration?: { readonly uniformBucketLevelAccess?: { readonly enabled?: boolean } };
  readonly encryption?: { readonly defaultKmsKeyName?: string };
}

/**
 * Throws `NotFound` if there is no such bucket. A setting that we must not read, or that the store
 * does not report, becomes a fact that says so.
 */
export async function inspectBucket(
  objects: GcsObjects,
  config: GcsConfig,
  signal: AbortSignal | undefined,
): Promise<readonly StoreFact[]> {
  const bucket = await objects.bucket(FIELDS, { signal }).catch(unlessDenied);
  const ofSettings =
    bucket === undefined
      ? [fact('bucket', 'bucket', 'not readable with these credentials: it needs storage.buckets.get')]
      : settingFacts(bucket as Bucket, config);
  const permission = await permissionFact(objects, config, signal);
  return [...ofSettings, permission, ...requestRateFacts(config)];
}

function unlessDenied(error: unknown): undefined {
  if (!(error instanceof HttpRefusal) || error.status !== 403) throw error;
  return undefined;
}

function settingFacts(bucket: Bucket, config: GcsConfig): StoreFact[] {
  return [
    locationFact(bucket),
    versioningFact(bucket, config),
    softDeleteFact(bucket),
    retentionFact(bucket),
    holdFact(bucket),
    objectRetentionFact(bucket),
    ...lifecycleFacts(bucket.lifecycle?.rule ?? [], config),
    autoclassFact(bucket),
    payerFact(bucket, config),
    accessFact(bucket),
    encryptionFact(bucket, config),
  ];
}

function locationFact({
  location = 'not known',
  locationType,
  storageClass = 'STANDARD',
}: Bucket): StoreFact {
  const type = locationType === undefined ? '' : ` (${locationType})`;
  return fact('location', 'location', `${location}${type}, ${storageClass}`);
}

function versioningFact({ versioning, lifecycle }: Bucket, { root }: GcsConfig): StoreFact {
  if (versioning?.enabled !== true) return fact('versioning', 'versioning', 'off');
  const rule = noncurrentRule(lifecycle?.rule ?? [], root);
  if (rule !== undefined) return fact('versioning', 'versioning', `on; ${rule}`);
  return fact(
    'versioning',
    'versioning',
    'on',
    'removed objects stay as noncurrent versions, and are billed',
    'add a lifecycle rule that deletes noncurrent versions, or switch versioning off',
  );
}

function softDeleteFact({ softDeletePolicy }: Bucket): StoreFact {
  const seconds = Number(softDeletePolicy?.retentionDurationSeconds ?? 0);
  if (seconds === 0) return fact('soft-delete', 'soft delete', 'off');
  return fact(
    'soft-delete',
    'soft delete',
    `keeps for ${days(seconds)}`,
    `removed objects are billed for another ${days(seconds)}`,
    'shorten or clear the policy if checkpoints are removed often: `gcloud storage buckets update --clear-soft-delete`',
  );
}

function retentionFact({ retentionPolicy }: Bucket): StoreFact {
  if (retentionPolicy === undefined) return fact('retention-policy', 'retention policy', 'none');
  const period = days(Number(retentionPolicy.retentionPeriod ?? 0));
  return fact(
    'retention-policy',
    'retention policy',
    `keeps for ${period}${retentionPolicy.isLocked === true ? ', locked' : ''}`,
    `nothing can be removed for ${period}, including leases and old catalog entries; retention fails until then`,
    'use a bucket without such a policy, or let retention keep checkpoints for longer',
  );
}

function holdFact({ defaultEventBasedHold }: Bucket): StoreFact {
  if (defaultEventBasedHold !== true) return fact('default-hold', 'default hold', 'off');
  return fact(
    'default-hold',
    'default hold',
    'on',
    'nothing can be removed until the hold of each object is released',
    'switch the default event-based hold of the bucket off',
  );
}

function objectRetentionFact({ objectRetention }: Bucket): StoreFact {
  const mode = objectRetention?.mode;
  return fact('object-retention', 'object retention', mode === undefined ? 'off' : `possible (${mode})`);
}

function autoclassFact({ autoclass }: Bucket): StoreFact {
  if (autoclass?.enabled !== true) return fact('autoclass', 'autoclass', 'off');
  const { terminalStorageClass = 'NEARLINE' } = autoclass;
  return fact('autoclass', 'autoclass', `on, down to ${terminalStorageClass}`);
}

function payerFact({ billing }: Bucket, { userProject }: GcsConfig): StoreFact {
  if (billing?.requesterPays !== true) return fact('requester-pays', 'requester pays', 'no');
  if (userProject !== undefined) return fact('requester-pays', 'requester pays', `yes: ${userProject}`);
  return fact(
    'requester-pays',
    'requester pays',
    'yes',
    'requests without a project that pays are refused',
    'name the project with userProject=',
  );
}

function accessFact({ iamConfiguration }: Bucket): StoreFact {
  const isUniform = iamConfiguration?.uniformBucketLevelAccess?.enabled === true;
  return fact('access', 'access', isUniform ? 'uniform' : 'by object (ACLs)');
}

function encryptionFact({ encryption }: Bucket, { customerKey, kmsKey }: GcsConfig): StoreFact {
  if (customerKey !== undefined)
    return fact('encryption', 'encryption', 'by the key of HOLDFAST_GCS_CUSTOMER_KEY');
  const key = kmsKey ?? encryption?.defaultKmsKeyName;
  return fact('encryption', 'encryption', key ?? "by Google's keys");
}

async function permissionFact(
  objects: GcsObjects,
  { uploads }: GcsConfig,
  signal: AbortSignal | undefined,
): Promise<StoreFact> {
  const wanted = uploads === 'multipart' ? [...PERMISSIONS, ...PERMISSIONS_OF_PARTS] : PERMISSIONS;
  const granted = await objects.testPermissions(wanted, { signal }).catch(unlessUntold);
  if (granted === undefined) return fact('permissions', 'permissions', 'this server does not report it');
  const missing = wanted.filter((permission) => !granted.includes(permission));
  if (missing.length === 0) return fact('permissions', 'permissions', `all ${wanted.length} that are needed`);
  return fact(
    'permissions',
    'permissions',
    `missing: ${missing.join(', ')}`,
    'calls that need them end with Denied',
    'grant roles/storage.objectUser on the bucket, or a custom role with these permissions',
  );
}

/** Emulators have no permissions. */
function unlessUntold(error: unknown): undefined {
  const isUntold =
    error instanceof HttpRefusal && [403, 404, 405, 501].includes(error.status) && !isMissingBucket(error);
  if (!isUntold) throw error;
  return undefined;
}

function days(seconds: number): string {
  return daysText(Math.round((seconds / DAY_S) * 10) / 10);
}

/** Google Cloud, "Request rate and access distribution guidelines". */
export function requestRateFacts({ endpoint }: Pick<GcsConfig, 'endpoint'>): StoreFact[] {
  if (endpoint !== GOOGLE) return []; // Other servers have other limits.
  return [requestRateFact(1000, 'to one bucket, until it has grown, twofold in 20 min')];
}
