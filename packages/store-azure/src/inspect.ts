/** What the settings of a container and its account mean for checkpoints. Some of them are told by Azure's management API only. */

import type { StoreFact } from '@holdfast/core/contract';
import type { AzureConnection } from './client.ts';
import type { AzureConfig } from './config.ts';
import { AzureRefusal } from './errors.ts';
import { parseListing, textOf } from './xml.ts';

type Headers = Readonly<Record<string, string>>;

/** Nothing may be read with these credentials, or the server does not tell. */
type Untold = undefined;

/** `NotFound` if there is no such container; what may not be read, or is not told, is a fact that says so. Four requests. */
export async function inspectContainer(
  connection: AzureConnection,
  config: AzureConfig,
  signal: AbortSignal | undefined,
): Promise<readonly StoreFact[]> {
  const [versions, container, account, service] = await Promise.all([
    hasVersions(connection, config, signal),
    ask(connection, { restype: 'container' }, signal),
    ask(connection, { restype: 'account', comp: 'properties' }, signal),
    askService(connection, signal),
  ]);
  return [
    redundancyFact(account),
    namespaceFact(account),
    ...containerFacts(container),
    softDeleteFact(service),
    versioningFact(versions),
    encryptionFact(container, config),
    lifecycleFact(),
  ];
}

async function ask(
  connection: AzureConnection,
  query: Headers,
  signal: AbortSignal | undefined,
): Promise<Headers | Untold> {
  const request = { operation: 'other', method: 'HEAD', query, isRepeatable: true, signal } as const;
  return connection.send(request).then(({ headers }) => headers, unlessUntold);
}

/** As XML. */
async function askService(
  connection: AzureConnection,
  signal: AbortSignal | undefined,
): Promise<string | Untold> {
  const query = { restype: 'service', comp: 'properties' };
  const request = {
    operation: 'other',
    method: 'GET',
    blob: null,
    query,
    isRepeatable: true,
    signal,
  } as const;
  return connection.send(request).then(({ body }) => new TextDecoder().decode(body), unlessUntold);
}

/** Told by a blob that is there, if there is one: null. */
async function hasVersions(
  connection: AzureConnection,
  { root }: AzureConfig,
  signal: AbortSignal | undefined,
): Promise<boolean | null | Untold> {
  const query = { restype: 'container', comp: 'list', include: 'versions', maxresults: '1', prefix: root };
  const request = { operation: 'other', method: 'GET', query, isRepeatable: true, signal } as const;
  const { prefix: _, ...anywhere } = query;
  const answer = await connection
    .send(root === '' ? { ...request, query: anywhere } : request)
    .catch(unlessUntold);
  const blob = answer && parseListing(new TextDecoder().decode(answer.body))?.blobs[0];
  if (answer === undefined) return undefined;
  return blob === undefined ? null : blob.versionId !== undefined;
}

/** A missing container is no matter of permission. */
function unlessUntold(error: unknown): Untold {
  const isUntold =
    error instanceof AzureRefusal &&
    [400, 401, 403, 404, 405, 409, 501].includes(error.status) &&
    !error.code.startsWith('Container');
  if (!isUntold) throw error;
  return undefined;
}

function fact(id: string, title: string, seen: string, meaning?: string, advice = ''): StoreFact {
  return { id, title, seen, ...(meaning !== undefined && { concern: { meaning, advice } }) };
}

function untold(id: string, title: string, permission: string): StoreFact {
  return fact(id, title, `not told with these credentials: ${permission}`);
}

const OF_ACCOUNT = 'it takes a key of the account, a SAS of the account with srt=sc, or the role "Reader"';

function redundancyFact(account: Headers | Untold): StoreFact {
  const sku = account?.['x-ms-sku-name'];
  if (sku === undefined) return untold('redundancy', 'redundancy', OF_ACCOUNT);
  const kind = account?.['x-ms-account-kind'] ?? '';
  return fact('redundancy', 'redundancy', kind === '' ? sku : `${sku}, ${kind}`);
}

function namespaceFact(account: Headers | Untold): StoreFact {
  const isHierarchical = account?.['x-ms-is-hns-enabled'];
  if (isHierarchical === undefined) return untold('hierarchical-namespace', 'namespace', OF_ACCOUNT);
  if (isHierarchical !== 'true') return fact('hierarchical-namespace', 'namespace', 'flat');
  return fact(
    'hierarchical-namespace',
    'namespace',
    'hierarchical',
    'directories stay when their objects are removed, and a listing is held in memory until it ends',
    'use an account without a hierarchical namespace if it is for checkpoints alone',
  );
}

function containerFacts(container: Headers | Untold): StoreFact[] {
  if (container === undefined) {
    const permission = 'it takes r (read) in a SAS of the account, or the role "Storage Blob Data Reader"';
    return [untold('immutability', 'immutability', permission), untold('access', 'access', permission)];
  }
  return [immutabilityFact(container), accessFact(container)];
}

function immutabilityFact(container: Headers): StoreFact {
  const is = (name: string) => container[`x-ms-${name}`] === 'true';
  const found = [
    ...(is('has-immutability-policy') ? ['a policy'] : []),
    ...(is('has-legal-hold') ? ['a legal hold'] : []),
  ];
  if (found.length > 0)
    return fact(
      'immutability',
      'immutability',
      found.join(' and '),
      'nothing can be removed while it lasts, leases and old catalog entries included; retention fails until then',
      'keep checkpoints in a container without it, or let retention keep them for longer than it',
    );
  const perVersion = is('immutable-storage-with-versioning-enabled');
  return fact('immutability', 'immutability', perVersion ? 'possible for each version' : 'none');
}

function accessFact(container: Headers): StoreFact {
  const access = container['x-ms-blob-public-access'];
  if (access === undefined) return fact('access', 'access', 'private');
  return fact(
    'access',
    'access',
    `public (${access})`,
    'everybody can read the checkpoints',
    'take the public access from the container: `az storage container set-permission --public-access off`',
  );
}

function softDeleteFact(service: string | Untold): StoreFact {
  const [, policy] = /<DeleteRetentionPolicy>(.*?)<\/DeleteRetentionPolicy>/s.exec(service ?? '') ?? [];
  if (policy === undefined) return untold('soft-delete', 'soft delete', OF_SERVICE);
  if (textOf(policy, 'Enabled') !== 'true') return fact('soft-delete', 'soft delete', 'off');
  const days = textOf(policy, 'Days') ?? '?';
  const period = days === '1' ? '1 day' : `${days} days`;
  return fact(
    'soft-delete',
    'soft delete',
    `keeps for ${period}`,
    `what is removed is billed for another ${period}`,
    'shorten it or switch it off if checkpoints come and go: `az storage blob service-properties delete-policy update`',
  );
}

const OF_SERVICE = 'it takes a key of the account, or a SAS of the account with srt=s and r (read)';

function versioningFact(versions: boolean | null | Untold): StoreFact {
  if (versions === undefined) return untold('versioning', 'versioning', 'it takes l (list)');
  if (versions === null)
    return fact('versioning', 'versioning', 'not told: there is no blob yet by which it could be seen');
  if (!versions) return fact('versioning', 'versioning', 'off');
  return fact(
    'versioning',
    'versioning',
    'on',
    'what is removed stays as an earlier version, and is billed',
    'add a lifecycle rule that deletes previous versions, or switch versioning off',
  );
}

function encryptionFact(
  container: Headers | Untold,
  { customerKey, encryptionScope }: AzureConfig,
): StoreFact {
  if (customerKey !== undefined)
    return fact('encryption', 'encryption', 'by the key of HOLDFAST_AZURE_CUSTOMER_KEY');
  const scope = encryptionScope ?? container?.['x-ms-default-encryption-scope'];
  const isOfAccount = scope === undefined || scope === '$account-encryption-key';
  return fact('encryption', 'encryption', isOfAccount ? 'by the key of the account' : `scope ${scope}`);
}

function lifecycleFact(): StoreFact {
  return fact(
    'lifecycle',
    'lifecycle, feed',
    'lifecycle rules, change feed and restore points are told by the management API only: see `az storage account management-policy show`; no rule may delete or archive what is below the prefix',
  );
}
