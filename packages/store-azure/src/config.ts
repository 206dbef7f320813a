import {
  type FromEnvironment,
  holdsSignature,
  isInTheClear,
  Proxies,
  type Secret,
  StoreUri,
  serverOf,
} from '@holdfast/cloud-http';
import { CheckpointError, checkStoreInput } from '@holdfast/core/contract';
import { namePrefix } from './blob-name.ts';
import {
  type AzureCredentials,
  accountKey,
  CONNECTION_STRING,
  type ConnectionString,
  parseConnectionString,
  sharedAccessSignature,
} from './connection-string.ts';
import { type AzureEnvironment, identityIn } from './identity-config.ts';

export interface AzureConfig {
  /** For messages: without the settings. */
  readonly uri: string;
  readonly account: string;
  readonly container: string;
  /** Empty, or ends in '/'. */
  readonly root: string;
  /** Base URL of the account, without a trailing '/'. */
  readonly endpoint: string;
  readonly credentials: AzureCredentials;
  /** If omitted: the account's tier. */
  readonly tier?: 'Hot' | 'Cool' | 'Cold' | undefined;
  readonly encryptionScope?: string | undefined;
  /** 32 bytes, in base64. */
  readonly customerKey?: Secret | undefined;
  /** Uploads carry the MD5 of their bodies, which the store verifies. */
  readonly contentMd5: boolean;
  /** Path of a PEM file with certificates to trust besides the usual ones. */
  readonly ca?: string | undefined;
  readonly proxies: Proxies;
}

const FORM = 'az://account/container/prefix, with optional settings after a "?"';

/** Query keys and their accepted values, for messages. */
const SETTINGS = {
  endpoint:
    'the base URL of the account, http:// or https:// (default: https://ACCOUNT.blob.core.windows.net)',
  auth: 'auto, key, sas or identity (default: auto, the first that the environment has)',
  tier: 'Hot, Cool or Cold (default: that of the account)',
  encryptionScope: 'the name of an encryption scope of the account',
  contentMd5: 'true or false (default: true over http:// to another machine)',
  ca: 'the absolute path of a PEM file with certificates to trust',
} as const;
type Uri = StoreUri<keyof typeof SETTINGS>;

/**
 * Parses an `az:` URI; `env` fills only what the URI leaves open. `InvalidConfig` says what was
 * wrong and what is accepted, and never repeats a secret. Pure: no requests, no file access. The
 * prefix is percent-decoded and otherwise unchanged; one trailing '/' is dropped.
 */
export function parseAzureConfig(uri: string, env: AzureEnvironment = {}): AzureConfig {
  checkStoreInput(uri, env);
  if (holdsSignature(uri)) throw hasSas();
  const given: Uri = new StoreUri(uri, { scheme: 'az', form: FORM, settings: SETTINGS });
  const account = accountOf(given);
  const [container = '', ...rest] = given.path.split('/');
  assertContainer(given, container);
  const prefix = given.prefix(rest.join('/'));
  assertSegments(given, prefix);
  const connection = parseConnectionString(env[CONNECTION_STRING] || undefined, account);
  const endpoint =
    given.baseUrl('endpoint', endpointOf(connection)) ?? `https://${account}.blob.core.windows.net`;
  const credentials = credentialsOf(given, { account, connection, env });
  if (credentials.kind !== 'key' && isInTheClear(endpoint))
    throw given.invalid(`would send ${SECRET[credentials.kind]} unencrypted: its endpoint is http://`);
  const tier = given.optionalChoice('tier', ['Hot', 'Cool', 'Cold', 'Archive']);
  if (tier === 'Archive') throw given.invalid('has tier=Archive, whose objects cannot be read at once');
  const proxies = new Proxies(env);
  proxies.to(serverOf(new URL(endpoint))); // Reject an unusable proxy at once.
  const name = `az://${account}/${container}`;
  return {
    uri: prefix === '' ? name : `${name}/${prefix}`,
    account,
    container,
    root: prefix === '' ? '' : namePrefix(`${prefix}/`),
    endpoint,
    credentials,
    tier,
    ...encryptionOf(given, env, endpoint),
    contentMd5: given.flag('contentMd5', isInTheClear(endpoint)),
    ca: given.absolutePath('ca'),
    proxies,
  };
}

function endpointOf(connection: ConnectionString | undefined): FromEnvironment | undefined {
  const value = connection?.endpoint;
  return value === undefined ? undefined : { variable: CONNECTION_STRING, value };
}

const SECRET = { sas: 'the SAS', identity: 'a token' } as const;

function hasSas(): CheckpointError {
  const what = 'the az:// URI contains a SAS; remove it and set AZURE_STORAGE_SAS_TOKEN';
  return new CheckpointError('InvalidConfig', what);
}

function accountOf(given: Uri): string {
  const account = given.authority;
  if (account === '') throw given.invalid('names no account');
  if (account.includes('.'))
    throw given.invalid('has a host instead of an account name; give the host with endpoint=');
  if (!/^[a-z0-9]{3,24}$/.test(account))
    throw given.invalid('has an invalid account name; it takes 3 to 24 lower-case letters or digits');
  return account;
}

function assertContainer(given: Uri, container: string): void {
  if (container === '') throw given.invalid('names no container');
  if (!/^(?!.*--)[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$/.test(container))
    throw given.invalid(
      'has an invalid container name; it takes 3 to 63 lower-case letters, digits or single "-"',
    );
}

function assertSegments(given: Uri, prefix: string): void {
  if (prefix.split('/').some((segment) => segment === '.' || segment === '..'))
    throw given.invalid('has a segment "." or ".." in its prefix');
}

function credentialsOf(
  given: Uri,
  {
    account,
    connection,
    env,
  }: {
    readonly account: string;
    readonly connection: ConnectionString | undefined;
    readonly env: AzureEnvironment;
  },
): AzureCredentials {
  const auth = given.choice('auth', ['auto', 'key', 'sas', 'identity']);
  const ofIdentity = { kind: 'identity', identity: identityIn(env) } as const;
  if (auth === 'identity') return ofIdentity;
  const own = env['AZURE_STORAGE_KEY'] ? (env['AZURE_STORAGE_ACCOUNT'] ?? account) : undefined;
  if (connection === undefined && auth !== 'sas' && own !== undefined && own !== account)
    throw given.invalid(
      'names another account than AZURE_STORAGE_ACCOUNT, and the key that is set is for that one; correct one of them, or write auth=identity',
    );
  const found = connection?.credentials ?? keyOf(env) ?? sasOf(env);
  const chosen = auth === 'auto' ? found : [found, keyOf(env), sasOf(env)].find((one) => one?.kind === auth);
  if (chosen === undefined && auth !== 'auto')
    throw given.invalid(
      auth === 'key'
        ? 'has auth=key, but neither AZURE_STORAGE_KEY nor AZURE_STORAGE_CONNECTION_STRING has a key'
        : 'has auth=sas, but neither AZURE_STORAGE_SAS_TOKEN nor AZURE_STORAGE_CONNECTION_STRING has a SAS',
    );
  return chosen ?? ofIdentity;
}

function keyOf(env: AzureEnvironment): AzureCredentials | undefined {
  const key = env['AZURE_STORAGE_KEY'] || undefined;
  return key === undefined ? undefined : { kind: 'key', key: accountKey(key, 'AZURE_STORAGE_KEY') };
}

function sasOf(env: AzureEnvironment): AzureCredentials | undefined {
  const token = env['AZURE_STORAGE_SAS_TOKEN'] || undefined;
  return token === undefined
    ? undefined
    : { kind: 'sas', token: sharedAccessSignature(token, 'AZURE_STORAGE_SAS_TOKEN') };
}

function encryptionOf(
  given: Uri,
  env: AzureEnvironment,
  endpoint: string,
): Pick<AzureConfig, 'encryptionScope' | 'customerKey'> {
  const encryptionScope = given.matching('encryptionScope', /^[A-Za-z0-9-]{3,63}$/);
  const variable = 'HOLDFAST_AZURE_CUSTOMER_KEY';
  const other = encryptionScope === undefined ? undefined : 'an encryptionScope';
  const customerKey = given.customerKey({ variable, value: env[variable] }, { endpoint, other });
  return { encryptionScope, customerKey };
}
