/**
 * Every kind of AWS credentials, through the packed command, on a MinIO that accepts only these.
 */

import { createHash } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
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
import { passOn, type Reply, scriptedServer } from '../scripted/scripted-server.ts';
import { describeOnMinio } from '../servers/describe-on-s3.ts';
import { credentialsEnv, restrictedCredentials } from '../servers/s3-access.ts';
import type { TestBucket } from '../servers/test-bucket.ts';
import {
  type AwsService,
  type AwsServices,
  CONTAINER_TOKEN,
  endpointsOf,
  json,
  SSO_REFRESH_TOKEN,
  SSO_TOKEN,
  startAwsServices,
  stsRefusal,
  WEB_IDENTITY_TOKEN,
} from './aws-services.ts';

const ALL = { Statement: [{ Effect: 'Allow', Action: ['s3:*'], Resource: ['arn:aws:s3:::*'] }] } as const;
const ROLE_ARN = 'arn:aws:iam::123456789012:role/trainer';
const HOUR_MS = 3_600_000;
const SOURCE_SECRET = 'canary-source-secret';

/** In the format of S3. */
const EXPIRED = {
  status: 400,
  headers: { 'content-type': 'application/xml' },
  body: '<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>',
};
const INSTANCE = { AWS_EC2_METADATA_DISABLED: 'false' };

const SOURCE = `[profile source]
aws_access_key_id = SOURCE
aws_secret_access_key = ${SOURCE_SECRET}
`;
const SSO = `[sso-session ours]
sso_start_url = https://ours.example/start
sso_region = eu-west-1
[profile sso]
sso_session = ours
sso_account_id = 123456789012
sso_role_name = trainer
`;

interface Kind {
  readonly name: string;
  /** Content of `~/.aws/config`. `HOME` stands for the directory. */
  readonly config?: string;
  readonly env?: Env;
  readonly asked: readonly AwsService[];
}

const KINDS: readonly Kind[] = [
  {
    name: 'a role with a source profile',
    config: `${SOURCE}[profile role]\nrole_arn = ${ROLE_ARN}\nsource_profile = source\n`,
    env: { AWS_PROFILE: 'role' },
    asked: ['AssumeRole'],
  },
  {
    name: 'a role assumed by an instance',
    config: `[profile role]\nrole_arn = ${ROLE_ARN}\ncredential_source = Ec2InstanceMetadata\n`,
    env: { ...INSTANCE, AWS_PROFILE: 'role' },
    asked: ['instance', 'AssumeRole'],
  },
  {
    name: 'a web identity of the environment',
    env: { AWS_WEB_IDENTITY_TOKEN_FILE: 'HOME/token', AWS_ROLE_ARN: ROLE_ARN },
    asked: ['AssumeRoleWithWebIdentity'],
  },
  {
    name: 'a web identity of a profile',
    config: `[profile web]\nrole_arn = ${ROLE_ARN}\nweb_identity_token_file = HOME/token\n`,
    env: { AWS_PROFILE: 'web' },
    asked: ['AssumeRoleWithWebIdentity'],
  },
  { name: 'single sign-on', config: SSO, env: { AWS_PROFILE: 'sso' }, asked: ['single sign-on'] },
  {
    name: 'a process',
    config: '[profile process]\ncredential_process = cat HOME/process.json\n',
    env: { AWS_PROFILE: 'process' },
    asked: [],
  },
  {
    name: 'a container',
    env: {
      AWS_CONTAINER_CREDENTIALS_FULL_URI: 'SERVICES/container',
      AWS_CONTAINER_AUTHORIZATION_TOKEN: CONTAINER_TOKEN,
    },
    asked: ['container'],
  },
  { name: 'an instance', env: INSTANCE, asked: ['instance'] },
];

for (const secret of [WEB_IDENTITY_TOKEN, SSO_TOKEN, SSO_REFRESH_TOKEN, CONTAINER_TOKEN, SOURCE_SECRET])
  keepSecret(secret);
keepSecret('canary-words-of-sts');

describeOnMinio('credentials of AWS', {}, (server) => {
  let services: AwsServices;
  /** Lifetime of credentials that are issued from now on. */
  let lifeMs = HOUR_MS;
  let home: Place;
  let source: string;
  let bucket: TestBucket;

  /** Credentials that MinIO accepts. No output may contain them. */
  async function credentials() {
    const own = await restrictedCredentials(server(), ALL);
    keepSecret(own.secretAccessKey);
    keepSecret(own.sessionToken);
    return own;
  }

  beforeAll(async () => {
    services = await startAwsServices({
      credentials,
      expiration: () => new Date(Date.now() + lifeMs),
    });
    home = await newPlace();
    bucket = await server().newBucket();
    source = await writeFiles(home, 'ckpt', { 'a.bin': 'a', 'b.bin': 'b' });
    await mkdir(home.path('.aws/sso/cache'), { recursive: true });
    await writeFile(home.path('token'), WEB_IDENTITY_TOKEN);
    const { accessKeyId: AccessKeyId, secretAccessKey: SecretAccessKey, sessionToken } = await credentials();
    const own = { Version: 1, AccessKeyId, SecretAccessKey, SessionToken: sessionToken };
    await writeFile(home.path('process.json'), JSON.stringify(own));
  });
  beforeEach(() => {
    services.given.length = 0;
    services.instead.clear();
    lifeMs = HOUR_MS;
    return ssoToken({ accessToken: SSO_TOKEN, expiresAt: new Date(Date.now() + HOUR_MS) });
  });
  afterAll(async () => {
    await services.stop();
    await home.remove();
  });

  async function ssoToken(fields: object): Promise<void> {
    const name = createHash('sha1').update('ours').digest('hex');
    await writeFile(home.path(`.aws/sso/cache/${name}.json`), JSON.stringify(fields));
  }

  async function environment({ config = '', env = {} }: Pick<Kind, 'config' | 'env'>): Promise<Env> {
    const here = (text: string) =>
      text.replaceAll('HOME', home.directory).replaceAll('SERVICES', services.endpoint);
    await writeFile(home.path('.aws/config'), here(config));
    return {
      HOME: home.directory,
      ...endpointsOf(services),
      ...Object.fromEntries(Object.entries(env).map(([name, value]) => [name, here(value)])),
    };
  }

  let count = 0;
  const nextUri = () => bucket.uri.replace('/run?', `/run-${++count}?`);
  // With `--force` there is one store, which asks for credentials once. Otherwise a first save also
  // looks above the run, through a second store.
  const save = (env: Env, uri = nextUri()) => cli(['save', source, uri, '--version', '1', '--force'], env);

  test('keys of the environment', async () => {
    expect(await save({ ...(await environment({})), ...credentialsEnv(await credentials()) })).toMatchObject({
      code: 0,
    });
  });

  test('keys of a profile, in the URI', async () => {
    const { accessKeyId, secretAccessKey, sessionToken } = await credentials();
    const lines = `[ours]\naws_access_key_id = ${accessKeyId}\naws_secret_access_key = ${secretAccessKey}\naws_session_token = ${sessionToken}\n`;
    await writeFile(join(home.directory, '.aws/credentials'), lines);
    const env = { ...(await environment({})), AWS_ACCESS_KEY_ID: 'other', AWS_SECRET_ACCESS_KEY: 'other' };
    // The profile of the URI overrides the keys without a warning.
    const saved = await save(env, `${bucket.uri.replace('/run?', '/run-profile?')}&profile=ours`);
    expect([saved.code, saved.stderr]).toEqual([0, expect.not.stringContaining('WARNING')]);
  });

  test.each(KINDS)('$name', async (kind) => {
    const saved = await save(await environment(kind));
    expect([saved.code, saved.stderr]).toEqual([0, expect.not.stringContaining('(')]);
    expect(services.given).toEqual(kind.asked);
  });

  test.each(['a role with a source profile', 'single sign-on'])(
    '$0, from sources, as the library loads the SDK',
    async (name) => {
      const env = await environment(KINDS.find((kind) => kind.name === name) ?? {});
      expect(await cli(['save', source, nextUri(), '--version', '1', '--force'], env)).toMatchObject({
        code: 0,
      });
      expect(services.given).toHaveLength(1);
    },
  );

  test('single sign-on whose token is over gets another one', async () => {
    const own = { clientId: 'c', clientSecret: 's', refreshToken: SSO_REFRESH_TOKEN };
    const expiresAt = new Date(Date.now() - 1000);
    await ssoToken({ accessToken: 'over', expiresAt, ...own });
    expect(await save(await environment({ config: SSO, env: { AWS_PROFILE: 'sso' } }))).toMatchObject({
      code: 0,
    });
    expect(services.given).toEqual(['login', 'single sign-on']);
  });

  /**
   * MinIO behind a server that checks each request's key. `refuses` decides by the keys seen so
   * far, the newest last.
   */
  async function watched(refuses: (keys: readonly string[], key: string) => boolean) {
    const keys: string[] = [];
    const onward = passOn(server().endpoint);
    const store = await scriptedServer((request, index) => {
      const [, key = ''] = /Credential=([^/]+)\//.exec(request.headers['authorization'] ?? '') ?? [];
      if (keys.at(-1) !== key) keys.push(key);
      return refuses(keys, key) ? EXPIRED : onward(request, index);
    });
    const uri = bucket.uri.replace(encodeURIComponent(server().endpoint), encodeURIComponent(store.endpoint));
    return { keys, uri: uri.replace('/run?', `/run-${++count}?`) };
  }

  test('credentials that the store calls expired in the middle of a save are replaced, once for all', async () => {
    let requests = 0;
    const { keys, uri } = await watched((seen, key) => key === seen[0] && ++requests > 6);
    const env = await environment({ env: INSTANCE });
    expect(await save(env, uri)).toMatchObject({ code: 0 });
    expect([services.given.length, new Set(keys).size]).toEqual([2, 2]);
  });

  test('credentials of a few seconds are replaced before they end', async () => {
    lifeMs = 5_000;
    const { keys, uri } = await watched(() => false);
    expect(await save(await environment({ env: INSTANCE }), uri)).toMatchObject({ code: 0 });
    expect(new Set(keys).size).toBeGreaterThan(2);
  });

  interface Bad {
    readonly name: string;
    readonly kind?: string;
    readonly config?: string;
    readonly env?: Env;
    readonly instead?: readonly [AwsService, Reply];
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
      name: 'a profile that is nowhere',
      env: { AWS_PROFILE: 'nowhere' },
      ...invalid,
      words: ['the profile "nowhere" is in neither ~/.aws/config nor ~/.aws/credentials'],
    },
    {
      name: 'a profile with nothing of use',
      config: '[profile empty]\nregion = eu-west-1\n',
      env: { AWS_PROFILE: 'empty' },
      ...denied,
      words: ['no credentials were found in the profile "empty"', 'check ~/.aws/config'],
    },
    {
      name: 'a role that is not granted',
      kind: 'a role with a source profile',
      instead: ['AssumeRole', stsRefusal(403, 'AccessDenied')],
      ...denied,
      words: [
        'the request for credentials from the role of the profile "role" was refused (',
        'HTTP 403',
        'check role_arn',
      ],
    },
    {
      name: 'a web identity that is over',
      kind: 'a web identity of the environment',
      instead: ['AssumeRoleWithWebIdentity', stsRefusal(400, 'ExpiredTokenException')],
      ...denied,
      words: [
        'from the web identity of AWS_WEB_IDENTITY_TOKEN_FILE was refused (',
        'HTTP 400',
        'check AWS_ROLE_ARN',
      ],
    },
    {
      name: 'a web identity without its file',
      env: { AWS_WEB_IDENTITY_TOKEN_FILE: 'HOME/gone', AWS_ROLE_ARN: ROLE_ARN },
      ...invalid,
      words: ['a file for the web identity of AWS_WEB_IDENTITY_TOKEN_FILE cannot be read', 'ENOENT'],
    },
    {
      name: 'single sign-on to an account that is not ours',
      kind: 'single sign-on',
      instead: ['single sign-on', json({ message: 'No access' }, 403)],
      ...denied,
      words: ['the single sign-on of the profile "sso"', 'aws sso login'],
    },
    {
      name: 'a process that says something else',
      config: '[profile process]\ncredential_process = echo canary-words-of-sts\n',
      env: { AWS_PROFILE: 'process' },
      ...denied,
      words: ['the credential_process of the profile "process"', 'run it by hand'],
    },
    {
      name: 'a container whose token is refused',
      kind: 'a container',
      instead: ['container', { status: 403, body: 'canary-words-of-sts' }],
      ...denied,
      words: ['the role of the container (', 'check AWS_CONTAINER_CREDENTIALS_FULL_URI'],
    },
    {
      name: 'an instance without a role',
      kind: 'an instance',
      instead: ['instance', { status: 404 }],
      ...denied,
      words: ['no credentials', 'the default chain of AWS', 'set AWS_ACCESS_KEY_ID'],
    },
    {
      name: 'nothing anywhere',
      ...denied,
      words: ['no credentials were found in the default chain of AWS', 'set AWS_ACCESS_KEY_ID'],
    },
    {
      name: 'an STS that does not answer',
      kind: 'a role with a source profile',
      instead: ['AssumeRole', 'silence'],
      ...late,
      words: ['no credentials arrived within 20 s from the profile "role"'],
    },
    {
      name: 'a container that does not answer',
      kind: 'a container',
      instead: ['container', 'silence'],
      ...late,
      words: ['no credentials arrived within 20 s from the role of the container'],
    },
    {
      name: 'a container that says something else',
      kind: 'a container',
      instead: ['container', { body: 'canary-words-of-sts' }],
      ...denied,
      words: ['the role of the container (SyntaxError)', 'check AWS_CONTAINER_CREDENTIALS_FULL_URI'],
    },
    {
      name: 'a process that does not end',
      config: '[profile process]\ncredential_process = cat\n',
      env: { AWS_PROFILE: 'process' },
      ...late,
      words: ['no credentials arrived within 20 s from the profile "process"'],
    },
  ])('$name: $code', async ({ kind, config, env, instead, code, exit, words }) => {
    if (instead !== undefined) services.instead.set(...instead);
    const known = KINDS.find(({ name }) => name === kind);
    const given = await environment(known ?? { ...(config && { config }), ...(env && { env }) });
    const ended = await cli(['list', bucket.uri], { ...given, ...(code === 'TimedOut' && HASTY) });
    expectError(ended, code, exit, ...words);
  });

  test.each<Omit<Bad, 'code' | 'exit'>>([
    {
      name: 'an STS that stumbles',
      kind: 'a role with a source profile',
      instead: ['AssumeRole', { status: 503 }],
      words: ['no credentials at present from the role of the profile "role"', 'HTTP 503'],
    },
    {
      name: 'an STS that hangs up',
      kind: 'a web identity of the environment',
      instead: ['AssumeRoleWithWebIdentity', 'reset'],
      words: ['at present from the web identity of AWS_WEB_IDENTITY_TOKEN_FILE'],
    },
    {
      name: 'a container that stumbles',
      kind: 'a container',
      instead: ['container', { status: 503 }],
      words: ['at present from the role of the container'],
    },
    {
      name: 'a container that hangs up',
      kind: 'a container',
      instead: ['container', 'reset'],
      words: ['at present from the role of the container'],
    },
  ])('$name: is asked again', async ({ kind, instead, words }) => {
    if (instead !== undefined) services.instead.set(...instead);
    const env = await environment(KINDS.find(({ name }) => name === kind) ?? {});
    await expectRepeat(['list', bucket.uri], env, words);
  });

  test('single sign-on that is over says how to log in', async () => {
    await ssoToken({ accessToken: SSO_TOKEN, expiresAt: new Date(Date.now() - 1000) });
    const env = await environment({ config: SSO, env: { AWS_PROFILE: 'sso' } });
    const ended = await cli(['list', bucket.uri], env);
    expectError(ended, 'Denied', 8, 'the single sign-on of the profile "sso"', 'aws sso login');
    expect(services.given).toEqual([]);
  });
});

test('no output told a secret', expectNoSecretTold);
