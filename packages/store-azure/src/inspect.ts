/**
 * What the settings of a container and its account mean for checkpoints. Only Azure's management
 * API reports some of them.
 */

import { elementsOf, fact, isXmlOf, requestRateFact, textOf } from '@holdfast/cloud-http';
import type { StoreFact } from '@holdfast/core/contract';
import type { AzureConnection, BlobRequest } from './client.ts';
import type { AzureConfig } from './config.ts';
import { AzureRefusal } from './errors.ts';

/**
 * An answer, or the reason why there is none: these credentials may not read it, or the server does
 * not report it.
 */
type Told<T> = T | 'denied' | 'silent';

interface Answer {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/**
 * Throws `NotFound` if there is no such container. A setting that we must not read, or that the
 * store does not report, becomes a fact that says so. Sends four requests.
 */
export async function inspectContainer(
  connection: AzureConnection,
  config: AzureConfig,
  signal: AbortSignal | undefined,
): Promise<readonly StoreFact[]> {
  const ask = (method: 'GET' | 'HEAD', query: BlobRequest['query'], blob?: null) =>
    connection
      .send({ operation: 'other', method, blob, query, isRepeatable: true, signal })
      .then(({ headers, body }) => ({ headers, body: wholeText(body) }))
      .catch(unlessUntold);
  const { root } = config;
  const oneBlob = { restype: 'container', comp: 'list', include: 'versions', maxresults: '1' };
  const [listing, container, account, service] = await Promise.all([
    ask('GET', root === '' ? oneBlob : { ...oneBlob, prefix: root }),
    ask('HEAD', { restype: 'container' }),
    ask('HEAD', { restype: 'account', comp: 'properties' }),
    ask('GET', { restype: 'service', comp: 'properties' }, null),
  ]);
  return [
    redundancyFact(header(account, 'x-ms-sku-name')),
    namespaceFact(header(account, 'x-ms-is-hns-enabled')),
    immutabilityFact(container),
    accessFact(container),
    softDeleteFact(service),
    ...blobFacts(listing, config),
    encryptionFact(container, config),
    lifecycleFact(),
    ...requestRateFacts(config),
  ];
}

/**
 * Text of a complete document, or of an empty answer. Settings missing from a truncated document
 * would be reported as off.
 */
function wholeText(body: Uint8Array): string {
  const text = new TextDecoder().decode(body);
  isXmlOf(text, /^(EnumerationResults|StorageServiceProperties)$/);
  return text;
}

/** Why a setting is unknown. Rethrows any other error, that of a missing container too. */
function unlessUntold(error: unknown): 'denied' | 'silent' {
  if (!(error instanceof AzureRefusal) || error.code.startsWith('Container')) throw error;
  if ([401, 403].includes(error.status)) return 'denied';
  if (![400, 404, 405, 409, 501].includes(error.status)) throw error;
  return 'silent';
}

function header(answer: Told<Answer>, name: string): Told<string> {
  return typeof answer === 'string' ? answer : (answer.headers[name] ?? 'silent');
}

function untold(id: string, title: string, why: 'denied' | 'silent', permission: string): StoreFact {
  return fact(
    id,
    title,
    why === 'silent'
      ? 'the server does not report it'
      : `not readable with these credentials: it needs ${permission}`,
  );
}

const OF_ACCOUNT = 'the key or a SAS of the account, or the role "Reader"';
const OF_CONTAINER = 'r (read) in a SAS of the account, or the role "Storage Blob Data Reader"';
const OF_SERVICE = 'the key of the account, or a SAS of it with srt=s and r (read)';

function redundancyFact(sku: Told<string>): StoreFact {
  if (sku === 'denied' || sku === 'silent') return untold('redundancy', 'redundancy', sku, OF_ACCOUNT);
  return fact('redundancy', 'redundancy', sku);
}

function namespaceFact(isHierarchical: Told<string>): StoreFact {
  const names = ['hierarchical-namespace', 'namespace'] as const;
  if (isHierarchical === 'denied' || isHierarchical === 'silent')
    return untold(...names, isHierarchical, OF_ACCOUNT);
  if (isHierarchical !== 'true') return fact(...names, 'flat');
  return fact(
    ...names,
    'hierarchical',
    'directories stay when their objects are removed, and a whole listing is held in memory',
    'use an account without a hierarchical namespace if it is only for checkpoints',
  );
}

function immutabilityFact(container: Told<Answer>): StoreFact {
  const names = ['immutability', 'immutability'] as const;
  if (typeof container === 'string') return untold(...names, container, OF_CONTAINER);
  const is = (name: string) => container.headers[`x-ms-${name}`] === 'true';
  const found = [
    ...(is('has-immutability-policy') ? ['a policy'] : []),
    ...(is('has-legal-hold') ? ['a legal hold'] : []),
  ];
  if (found.length === 0)
    return fact(...names, is('immutable-storage-with-versioning-enabled') ? 'allowed for versions' : 'none');
  return fact(
    ...names,
    found.join(' and '),
    'nothing can be removed while it is in force, including leases and old catalog entries; retention fails until then',
    'use a container without it, or let retention keep checkpoints for longer',
  );
}

function accessFact(container: Told<Answer>): StoreFact {
  const names = ['access', 'access'] as const;
  if (typeof container === 'string') return untold(...names, container, OF_CONTAINER);
  const access = container.headers['x-ms-blob-public-access'];
  if (access === undefined) return fact(...names, 'private');
  return fact(
    ...names,
    `public (${access})`,
    'the checkpoints can be read without credentials',
    'remove it: `az storage container set-permission --public-access off`',
  );
}

function softDeleteFact(service: Told<Answer>): StoreFact {
  const names = ['soft-delete', 'soft delete'] as const;
  if (typeof service === 'string') return untold(...names, service, OF_SERVICE);
  const [policy] = elementsOf(service.body, 'DeleteRetentionPolicy');
  if (policy === undefined) return untold(...names, 'silent', OF_SERVICE);
  if (textOf(policy, 'Enabled') !== 'true') return fact(...names, 'off');
  const days = textOf(policy, 'Days') ?? '?';
  const period = days === '1' ? '1 day' : `${days} days`;
  return fact(
    ...names,
    `keeps for ${period}`,
    `removed objects are billed for another ${period}`,
    'shorten it or switch it off if checkpoints are removed often: `az storage blob service-properties delete-policy update`',
  );
}

/** Facts that only a blob can show. */
function blobFacts(listing: Told<Answer>, { tier }: AzureConfig): StoreFact[] {
  const versioning = ['versioning', 'versioning'] as const;
  const accessTier = ['access-tier', 'access tier'] as const;
  if (typeof listing === 'string')
    return [versioning, accessTier].map(([id, title]) => untold(id, title, listing, 'l (list)'));
  const [blob] = elementsOf(listing.body, 'Blob');
  const seenTier = tier ?? textOf(blob ?? '', 'AccessTier');
  if (blob === undefined)
    return [
      fact(...versioning, 'not known before there is a blob'),
      fact(...accessTier, seenTier ?? 'that of the account'),
    ];
  return [versioningFact(textOf(blob, 'VersionId')), fact(...accessTier, seenTier ?? 'that of the account')];
}

function versioningFact(versionId: string | undefined): StoreFact {
  if (versionId === undefined) return fact('versioning', 'versioning', 'off');
  return fact(
    'versioning',
    'versioning',
    'on',
    'removed objects stay as earlier versions, and are billed',
    'add a lifecycle rule that deletes previous versions, or switch versioning off',
  );
}

function encryptionFact(container: Told<Answer>, { customerKey, encryptionScope }: AzureConfig): StoreFact {
  const names = ['encryption', 'encryption'] as const;
  if (customerKey !== undefined) return fact(...names, 'by the key of HOLDFAST_AZURE_CUSTOMER_KEY');
  const ofContainer = typeof container === 'string' ? undefined : container.headers[DEFAULT_SCOPE];
  const scope = encryptionScope ?? ofContainer;
  const isOfAccount = scope === undefined || scope === '$account-encryption-key';
  return fact(...names, isOfAccount ? 'by the key of the account' : `scope ${scope}`);
}

const DEFAULT_SCOPE = 'x-ms-default-encryption-scope';

function lifecycleFact(): StoreFact {
  const where = '`az storage account management-policy show`';
  return fact('lifecycle', 'lifecycle rules', `shown only by the management API: ${where}`);
}

/** Azure, "Scalability and performance targets for standard storage accounts". */
export function requestRateFacts({ endpoint }: Pick<AzureConfig, 'endpoint'>): StoreFact[] {
  // Other servers have other limits.
  if (!new URL(endpoint).hostname.endsWith('.core.windows.net')) return [];
  return [requestRateFact(20_000, 'to one account, all requests counted, 40,000 in some regions')];
}
