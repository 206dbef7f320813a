/**
 * Every kind of Azure credentials, through the packed command. Azurite accepts no tokens here, so a
 * server in front of it checks them.
 */

import { writeFile } from 'node:fs/promises';
import {
  AccountSASPermissions,
  AccountSASResourceTypes,
  AccountSASServices,
  generateAccountSASQueryParameters,
  StorageSharedKeyCredential,
} from '@azure/storage-blob';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { newPlace, type Place, writeFiles } from '../e2e/holdfast-process.ts';
import {
  cli,
  type Env,
  expectError,
  expectNoSecretTold,
  expectRepeat,
  HASTY,
  keepSecret,
} from '../e2e/s3-process.ts';
import { passOn, type Reply, type ScriptedServer, startScriptedServer } from '../scripted/scripted-server.ts';
import { type AzureAccess, azureEnv } from '../servers/azure-access.ts';
import { describeOnAzurite } from '../servers/describe-on-azure.ts';
import { json } from './aws-services.ts';
import {
  APPLICATION,
  AZURE_SECRETS,
  type AzureService,
  type AzureServices,
  CLIENT_SECRET,
  entraRefusal,
  FEDERATED_TOKEN,
  startAzureServices,
} from './azure-services.ts';
import { bearerOf } from './google-services.ts';

interface Kind {
  readonly name: string;
  /**
   * `HOME` stands for the directory. `HOST` stands for the variables of a managed identity's host.
   */
  readonly env: Env;
  readonly host?: 'ofAppService' | 'ofVirtualMachine';
  readonly asked: readonly AzureService[];
}

const SECRET = { ...APPLICATION, AZURE_CLIENT_SECRET: CLIENT_SECRET };
const CERTIFICATE = { ...APPLICATION, AZURE_CLIENT_CERTIFICATE_PATH: 'HOME/identity.pem' };
const WORKLOAD = { ...APPLICATION, AZURE_FEDERATED_TOKEN_FILE: 'HOME/federated' };

const KINDS: readonly Kind[] = [
  { name: 'a client secret', env: SECRET, asked: ['secret'] },
  { name: 'a certificate', env: CERTIFICATE, asked: ['certificate'] },
  { name: 'a workload identity', env: WORKLOAD, asked: ['workload'] },
  { name: 'the managed identity of an app service', env: {}, host: 'ofAppService', asked: ['app service'] },
  {
    name: 'the managed identity of a virtual machine',
    env: {},
    host: 'ofVirtualMachine',
    asked: ['virtual machine'],
  },
];

for (const secret of AZURE_SECRETS) keepSecret(secret);

/** A SAS with all permissions. */
function sasOf({ account, key }: AzureAccess): string {
  const permissions = AccountSASPermissions.parse('rwdlacup');
  const services = AccountSASServices.parse('b').toString();
  const resourceTypes = AccountSASResourceTypes.parse('sco').toString();
  const expiresOn = new Date(Date.now() + 3_600_000);
  const values = { permissions, services, resourceTypes, expiresOn };
  return generateAccountSASQueryParameters(values, new StorageSharedKeyCredential(account, key)).toString();
}

describeOnAzurite('credentials of Azure', {}, (server) => {
  let services: AzureServices;
  let store: ScriptedServer & { stop(): Promise<void> };
  let isTaken: (token: string) => boolean;
  let home: Place;
  let source: string;
  let bucket: string;
  let sas: string;

  beforeAll(async () => {
    home = await newPlace();
    services = await startAzureServices(home.directory);
    sas = sasOf(server());
    keepSecret(new URLSearchParams(sas).get('sig') ?? '');
    keepSecret(server().key);
    const onward = passOn(server().endpoint);
    store = await startScriptedServer((request, index) => {
      const { authorization, ...headers } = request.headers;
      if (!isTaken(bearerOf(authorization)))
        return { ...json({}, 401), headers: { 'x-ms-error-code': 'InvalidAuthenticationInfo' } };
      return onward({ ...request, headers, target: `${request.path}?${request.search}&${sas}` }, index);
    });
    ({ bucket } = await server().newBucket());
    source = await writeFiles(home, 'ckpt', { 'a.bin': 'a', 'b.bin': 'b' });
    await writeFile(home.path('federated'), FEDERATED_TOKEN);
    await writeFile(home.path('other.pem'), 'canary-words-of-entra');
  });
  beforeEach(() => {
    services.given.length = 0;
    services.instead.clear();
    services.lifeS = 3600;
    isTaken = (token) => services.tokens.includes(token);
  });
  afterAll(async () => {
    await Promise.all([services.stop(), store.stop(), home.remove()]);
  });

  let count = 0;
  const uri = (endpoint = `${store.endpoint}/${server().account}`) =>
    `az://${server().account}/${bucket}/run-${++count}?${new URLSearchParams({ endpoint })}`;
  // With `--force` there is one store, which asks for credentials once. Otherwise a first save also
  // looks above the run, through a second store.
  const save = (env: Env, to = uri()) => cli(['save', source, to, '--version', '1', '--force'], env);

  function environment({ env, host }: Pick<Kind, 'env' | 'host'>): Env {
    const here = Object.entries(env).map(([name, value]) => [name, value.replaceAll('HOME', home.directory)]);
    return {
      HOME: home.directory,
      ...services.env,
      ...Object.fromEntries(here),
      ...(host !== undefined && services[host]),
    };
  }

  test('the key of the account', async () => {
    expect(await save(azureEnv(server()), uri(server().endpoint))).toMatchObject({ code: 0 });
  });

  test('a connection string', async () => {
    const { account, key, endpoint } = server();
    const text = `AccountName=${account};AccountKey=${key};BlobEndpoint=${endpoint}`;
    const to = `az://${account}/${bucket}/run-${++count}`;
    expect(await save({ AZURE_STORAGE_CONNECTION_STRING: text }, to)).toMatchObject({ code: 0 });
  });

  test('a SAS', async () => {
    const env = { AZURE_STORAGE_SAS_TOKEN: sas };
    expect(await save(env, uri(server().endpoint))).toMatchObject({ code: 0 });
  });

  test.each(KINDS)('$name', async (kind) => {
    const saved = await save(environment(kind));
    expect([saved.code, saved.stderr]).toEqual([0, expect.not.stringContaining('(')]);
    expect(services.given).toEqual(kind.asked);
  });

  test('a token that the store refuses in the middle of a save is replaced, once for all', async () => {
    let requests = 0;
    const first = `canary-token-${services.tokens.length}`;
    isTaken = (token) => services.tokens.includes(token) && (token !== first || ++requests < 6);
    expect(await save(environment({ env: SECRET }))).toMatchObject({ code: 0 });
    expect(services.given).toHaveLength(2);
  });

  test.each<Pick<Kind, 'name' | 'env' | 'host'>>([
    { name: 'a workload identity', env: WORKLOAD },
    { name: 'a virtual machine', env: {}, host: 'ofVirtualMachine' },
  ])('tokens of $name that live for seconds are replaced before they end', async (kind) => {
    services.lifeS = 5;
    expect(await save(environment(kind))).toMatchObject({ code: 0 });
    expect(services.given.length).toBeGreaterThan(2);
  });

  interface Bad extends Partial<Kind> {
    readonly name: string;
    readonly instead?: readonly [AzureService, Reply];
    readonly code: string;
    readonly exit: number;
    readonly words: readonly string[];
  }
  const denied = { code: 'Denied', exit: 8 } as const;
  const invalid = { code: 'InvalidConfig', exit: 2 } as const;
  /** Three attempts of 20 s use up the 60 s of a short command (`LOOK_TIMEOUT_MS`). */
  const late = { code: 'TimedOut', exit: 75 } as const;

  test.each<Bad>([
    {
      name: 'a wrong secret',
      env: { ...SECRET, AZURE_CLIENT_SECRET: 'canary-words-of-entra' },
      ...denied,
      words: [
        'with the client secret of AZURE_CLIENT_SECRET was refused (',
        'AADSTS7000215',
        'HTTP 401',
        'has expired',
      ],
    },
    {
      name: 'a tenant that is not there',
      env: { ...SECRET, AZURE_TENANT_ID: '99999999-2222-3333-4444-555555555555' },
      instead: ['secret', entraRefusal(400, 'invalid_request', 90002)],
      ...denied,
      words: ['AADSTS90002', 'check AZURE_TENANT_ID'],
    },
    {
      name: 'a tenant that cannot be one',
      env: { ...SECRET, AZURE_TENANT_ID: 'a b' },
      ...invalid,
      words: ['AZURE_TENANT_ID is neither the id nor the domain of a tenant'],
    },
    {
      name: 'a certificate that is not there',
      env: { ...CERTIFICATE, AZURE_CLIENT_CERTIFICATE_PATH: '/nowhere.pem' },
      ...invalid,
      words: ['a file for the certificate of AZURE_CLIENT_CERTIFICATE_PATH cannot be read', 'ENOENT'],
    },
    {
      name: 'a certificate that is none',
      env: { ...CERTIFICATE, AZURE_CLIENT_CERTIFICATE_PATH: 'HOME/other.pem' },
      ...invalid,
      words: ['the certificate of AZURE_CLIENT_CERTIFICATE_PATH cannot be used'],
    },
    {
      name: 'a workload identity without its file',
      env: { ...WORKLOAD, AZURE_FEDERATED_TOKEN_FILE: '/nowhere' },
      ...invalid,
      words: ['a file for the workload identity of AZURE_FEDERATED_TOKEN_FILE cannot be read', 'ENOENT'],
    },
    {
      name: 'a workload identity that is over',
      env: WORKLOAD,
      instead: ['workload', entraRefusal(401, 'invalid_client', 700024)],
      ...denied,
      words: ['AADSTS700024', 'the federated credential of the application'],
    },
    {
      name: 'a machine without an identity',
      env: { AZURE_TOKEN_CREDENTIALS: 'ManagedIdentityCredential' },
      host: 'ofAppService',
      instead: ['app service', json({ error: 'invalid_request' }, 400)],
      ...denied,
      words: ['no credentials were found', 'give the machine an identity'],
    },
    {
      name: 'an Entra that does not answer',
      env: SECRET,
      instead: ['secret', 'silence'],
      ...late,
      words: ['no credentials arrived within 20 s from the client secret of AZURE_CLIENT_SECRET'],
    },
  ])('$name: $code', async ({ instead, code, exit, words, env = {}, host }) => {
    if (instead !== undefined) services.instead.set(...instead);
    const given = environment({ env, ...(host && { host }) });
    expectError(
      await cli(['list', uri()], { ...given, ...(code === 'TimedOut' && HASTY) }),
      code,
      exit,
      ...words,
    );
  });

  test.each<Omit<Bad, 'code' | 'exit'>>([
    {
      name: 'an Entra that stumbles',
      env: SECRET,
      instead: ['secret', { status: 503 }],
      words: ['no token at present from the client secret', 'HTTP 503'],
    },
    {
      name: 'an Entra that hangs up',
      env: CERTIFICATE,
      instead: ['certificate', 'reset'],
      words: ['no token at present from the certificate'],
    },
  ])('$name: is asked again', async ({ instead, words, env = {} }) => {
    if (instead !== undefined) services.instead.set(...instead);
    await expectRepeat(['list', uri()], environment({ env }), words);
  });
});

test('no output told a secret', expectNoSecretTold);
