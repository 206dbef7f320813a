/**
 * Every kind of Google Cloud credentials, through the packed command. The emulator checks no
 * credentials, so a server in front of it does.
 */

import { mkdir, writeFile } from 'node:fs/promises';
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
import { describeOnFakeGcs } from '../servers/describe-on-gcs.ts';
import { json } from './aws-services.ts';
import {
  AUTHORIZED_USER,
  bearerOf,
  EXTERNAL_ACCOUNT,
  GOOGLE_SECRETS,
  type GoogleService,
  type GoogleServices,
  IMPERSONATED,
  IMPERSONATION_URL,
  SERVICE_ACCOUNT,
  SUBJECT_TOKEN,
  startGoogleServices,
} from './google-services.ts';

interface Kind {
  readonly name: string;
  /** Content of the file that `GOOGLE_APPLICATION_CREDENTIALS` names. */
  readonly file?: object | string | undefined;
  readonly env?: Env | undefined;
  readonly asked: readonly GoogleService[];
}

const MACHINE = { METADATA_SERVER_DETECTION: 'assume-present', GCE_METADATA_HOST: 'METADATA' };
const NOTHING = { METADATA_SERVER_DETECTION: 'none' };

const KINDS: readonly Kind[] = [
  { name: 'a service account', file: SERVICE_ACCOUNT, asked: ['service account'] },
  { name: 'an authorized user', file: AUTHORIZED_USER, asked: ['user'] },
  { name: 'an external account', file: EXTERNAL_ACCOUNT, asked: ['exchange'] },
  {
    name: 'an external account that impersonates',
    file: { ...EXTERNAL_ACCOUNT, service_account_impersonation_url: IMPERSONATION_URL },
    asked: ['exchange', 'impersonation'],
  },
  { name: 'an impersonation', file: IMPERSONATED, asked: ['user', 'impersonation'] },
  {
    name: 'an impersonation by a service account',
    file: { ...IMPERSONATED, source_credentials: SERVICE_ACCOUNT },
    asked: ['service account', 'impersonation'],
  },
  { name: 'the login of gcloud', env: { CLOUDSDK_CONFIG: 'HOME/gcloud' }, asked: ['user'] },
  { name: 'the metadata server', env: MACHINE, asked: ['metadata'] },
];

for (const secret of GOOGLE_SECRETS) keepSecret(secret);
keepSecret('canary-token');

describeOnFakeGcs('credentials of Google Cloud', {}, (server) => {
  let services: GoogleServices;
  let store: ScriptedServer & { stop(): Promise<void> };
  /** True if the store accepts the token. By default it accepts every issued token. */
  let isTaken: (token: string) => boolean;
  let home: Place;
  let source: string;
  let bucket: string;

  beforeAll(async () => {
    services = await startGoogleServices();
    const onward = passOn(server().endpoint);
    store = await startScriptedServer((request, index) => {
      const { authorization, ...headers } = request.headers;
      return isTaken(bearerOf(authorization))
        ? onward({ ...request, headers }, index)
        : json(
            { error: { code: 401, message: 'Invalid Credentials', errors: [{ reason: 'authError' }] } },
            401,
          );
    });
    ({ bucket } = await server().newBucket());
    home = await newPlace();
    source = await writeFiles(home, 'ckpt', { 'a.bin': 'a', 'b.bin': 'b' });
    await mkdir(home.path('gcloud'));
    await writeFile(
      home.path('gcloud/application_default_credentials.json'),
      JSON.stringify(AUTHORIZED_USER),
    );
    await writeFile(home.path('subject'), SUBJECT_TOKEN);
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

  async function environment({ file, env = NOTHING }: Pick<Kind, 'file' | 'env'>): Promise<Env> {
    const here = (text: string) =>
      text.replaceAll('HOME', home.directory).replaceAll('METADATA', services.metadataHost);
    const path = home.path('credentials.json');
    if (file !== undefined)
      await writeFile(path, typeof file === 'string' ? file : here(JSON.stringify(file)));
    return {
      HOME: home.directory,
      ...services.env,
      ...Object.fromEntries(Object.entries(env).map(([name, value]) => [name, here(value)])),
      ...(file !== undefined && { GOOGLE_APPLICATION_CREDENTIALS: path }),
    };
  }

  let count = 0;
  const uri = () => {
    // The emulator does not support uploads in parts.
    const query = new URLSearchParams({ endpoint: store.endpoint, auth: 'true', uploads: 'compose' });
    return `gs://${bucket}/run-${++count}?${query}`;
  };
  // With `--force` there is one store, which asks for credentials once. Otherwise a first save also
  // looks above the run, through a second store.
  const save = (env: Env) => cli(['save', source, uri(), '--version', '1', '--force'], env);

  test.each(KINDS)('$name', async (kind) => {
    const saved = await save(await environment(kind));
    expect([saved.code, saved.stderr]).toEqual([0, expect.not.stringContaining('(')]);
    expect(services.given).toEqual(kind.asked);
  });

  test('a token that the store refuses in the middle of a save is replaced, once for all', async () => {
    let requests = 0;
    const first = `canary-token-${services.tokens.length}`;
    isTaken = (token) => services.tokens.includes(token) && (token !== first || ++requests < 6);
    expect(await save(await environment({ env: MACHINE }))).toMatchObject({ code: 0 });
    expect(services.given).toHaveLength(2);
  });

  test('tokens of a few seconds are replaced before they end', async () => {
    services.lifeS = 5;
    expect(await save(await environment({ env: MACHINE }))).toMatchObject({ code: 0 });
    expect(services.given.length).toBeGreaterThan(2);
  });

  interface Bad extends Partial<Kind> {
    readonly name: string;
    readonly instead?: readonly [GoogleService, Reply];
    readonly code: string;
    readonly exit: number;
    readonly words: readonly string[];
  }
  const denied = { code: 'Denied', exit: 8 } as const;
  const invalid = { code: 'InvalidConfig', exit: 2 } as const;
  /** Three attempts of 20 s use up the 60 s of a short command (`LOOK_TIMEOUT_MS`). */
  const late = { code: 'TimedOut', exit: 75 } as const;

  test.each<Bad>([
    { name: 'nothing anywhere', ...denied, words: ['no credentials were found', 'gcloud auth'] },
    {
      name: 'a file that is not there',
      env: { ...NOTHING, GOOGLE_APPLICATION_CREDENTIALS: 'HOME/gone.json' },
      ...invalid,
      words: ['the credentials cannot be used', 'ENOENT', 'GOOGLE_APPLICATION_CREDENTIALS'],
    },
    { name: 'a file of another form', file: '{"canary-words-of-google', ...invalid, words: ['not JSON'] },
    {
      name: 'a file of no kind',
      file: { type: 'other' },
      ...invalid,
      words: ['the credentials cannot be used'],
    },
    {
      name: 'a service account with half a key',
      file: {
        ...SERVICE_ACCOUNT,
        private_key: '-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----\n',
      },
      ...invalid,
      words: ['the credentials cannot be used'],
    },
    {
      name: 'a user who has taken the permission back',
      file: { ...AUTHORIZED_USER, refresh_token: 'other' },
      ...denied,
      words: ['the credentials were refused', 'invalid_grant', 'revoked or expired'],
    },
    {
      name: 'an external account without its token',
      file: { ...EXTERNAL_ACCOUNT, credential_source: { file: '/nowhere/subject' } },
      ...invalid,
      words: ['the credentials cannot be used'],
    },
    {
      name: 'an impersonation that is not permitted',
      file: IMPERSONATED,
      instead: [
        'impersonation',
        json({ error: { status: 'PERMISSION_DENIED', message: 'canary-words-of-google' } }, 403),
      ],
      ...denied,
      words: ['the credentials were refused', 'HTTP 403'],
    },
    {
      name: 'a machine without a service account',
      env: MACHINE,
      instead: ['metadata', { status: 404 }],
      ...denied,
      words: ['the credentials were refused', 'HTTP 404'],
    },
    {
      name: 'a token server that does not answer',
      file: AUTHORIZED_USER,
      instead: ['user', 'silence'],
      ...late,
      words: ['no credentials arrived within 20 s from the file of GOOGLE_APPLICATION_CREDENTIALS'],
    },
  ])('$name: $code', async ({ instead, code, exit, words, file, env }) => {
    if (instead !== undefined) services.instead.set(...instead);
    const given = await environment({ file, env });
    expectError(
      await cli(['list', uri()], { ...given, ...(code === 'TimedOut' && HASTY) }),
      code,
      exit,
      ...words,
    );
  });

  test.each<Omit<Bad, 'code' | 'exit'>>([
    {
      name: 'a token server that stumbles',
      file: SERVICE_ACCOUNT,
      instead: ['service account', { status: 503 }],
      words: ['no token at present', 'HTTP 503'],
    },
    {
      name: 'a token server that hangs up',
      file: AUTHORIZED_USER,
      instead: ['user', 'reset'],
      words: ['no token at present'],
    },
  ])('$name: is asked again', async ({ instead, words, file }) => {
    if (instead !== undefined) services.instead.set(...instead);
    await expectRepeat(['list', uri()], await environment({ file }), words);
  });
});

test('no output told a secret', expectNoSecretTold);
