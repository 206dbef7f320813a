import { CredentialsError } from '@holdfast/cloud-http';
import { describe, expect, it } from 'vitest';
import { identityTokens } from './credentials.ts';
import { type AzureIdentity, identityIn } from './identity-config.ts';

const APPLICATION = { AZURE_TENANT_ID: 't', AZURE_CLIENT_ID: 'c' };
const MACHINE = { kind: 'machine' } as const;

/** Fails like the library: with a kind, and sometimes with a cause that has details. */
async function failureOf(identity: AzureIdentity, error: Error, wasGiven = false): Promise<CredentialsError> {
  let isDown = !wasGiven;
  const getToken = async () => {
    if (isDown) throw error;
    return { token: 'token', expiresOnTimestamp: Date.now() - 1 };
  };
  const tokens = identityTokens(identity, async () => ({ getToken }));
  if (wasGiven) await tokens.current();
  isDown = true;
  const found = await tokens.current().catch((thrown: unknown) => thrown);
  if (!(found instanceof CredentialsError)) throw new Error(`not a CredentialsError: ${found}`);
  return found;
}

const caused = (facts: object) =>
  Object.assign(new Error('words with a canary', { cause: Object.assign(new Error('canary'), facts) }), {
    name: 'AuthenticationRequiredError',
  });

describe('a token that is not given', () => {
  const secret = identityIn({ ...APPLICATION, AZURE_CLIENT_SECRET: 's' });

  it.each<[string, Error, string, string]>([
    [
      'a wrong secret',
      caused({ name: 'ServerError', errorCode: 'invalid_client', errorNo: '7000215', status: 401 }),
      'Denied',
      'the request for a token with the client secret of AZURE_CLIENT_SECRET was refused (AuthenticationRequiredError, AADSTS7000215, HTTP 401); check AZURE_TENANT_ID',
    ],
    [
      'a service that stumbles',
      caused({ name: 'ServerError', errorCode: 'server_error', status: 503 }),
      'Unavailable',
      'at present from the client secret',
    ],
    [
      'no network',
      caused({ name: 'ClientAuthError', errorCode: 'network_error' }),
      'Unavailable',
      'at present from the client secret',
    ],
    [
      'an authority that cannot be asked',
      Object.assign(new Error('endpoints_resolution_error'), { name: 'CredentialUnavailableError' }),
      'Unavailable',
      'at present from the client secret',
    ],
    ['a proxy that wants a login', caused({ status: 407 }), 'Denied', 'the proxy requires credentials'],
    [
      'a file of another form',
      new Error('canary: not a PEM-encoded certificate'),
      'InvalidConfig',
      'the client secret of AZURE_CLIENT_SECRET cannot be used (Error)',
    ],
    ['a file that is not there', caused({ code: 'ENOENT' }), 'InvalidConfig', 'cannot be read'],
  ])('%s', async (_name, error, code, words) => {
    const failure = await failureOf(secret, error);
    expect([failure.code, failure.message]).toEqual([code, expect.stringContaining(words)]);
    expect(failure.message).not.toContain('canary');
  });

  it('anywhere on the machine: says what can be done, in one line', async () => {
    const error = new Error('ChainedTokenCredential authentication failed.\nCaused by: a hundred lines');
    expect((await failureOf(MACHINE, error)).message).toBe(
      'no credentials were found (Error); set AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING, sign in with `az login`, or give the machine an identity',
    );
  });

  it('although there was one before, is a matter of time', async () => {
    expect(await failureOf(MACHINE, new Error('down'), true)).toMatchObject({
      code: 'Unavailable',
      message: 'the token has expired, and no new one is available (Error)',
    });
  });
});

describe('the identity that asks for tokens', () => {
  const path = '/etc/identity.pem';

  it.each<[string, Record<string, string>, object]>([
    ['nothing', {}, MACHINE],
    ['a secret without a tenant', { AZURE_CLIENT_ID: 'c', AZURE_CLIENT_SECRET: 's' }, MACHINE],
    ['a secret', { ...APPLICATION, AZURE_CLIENT_SECRET: 's' }, { kind: 'secret' }],
    [
      'a certificate',
      { ...APPLICATION, AZURE_CLIENT_CERTIFICATE_PATH: path, AZURE_CLIENT_SEND_CERTIFICATE_CHAIN: 'True' },
      { kind: 'certificate', path, sendsChain: true },
    ],
    ['a token in a file', { ...APPLICATION, AZURE_FEDERATED_TOKEN_FILE: path }, { kind: 'workload', path }],
    [
      'a secret beside a token, of which the token is wanted',
      {
        ...APPLICATION,
        ...{ AZURE_CLIENT_SECRET: 's', AZURE_FEDERATED_TOKEN_FILE: path },
        AZURE_TOKEN_CREDENTIALS: 'WorkloadIdentityCredential',
      },
      { kind: 'workload', path },
    ],
    [
      'a secret where only tools of developers are wanted',
      { ...APPLICATION, AZURE_CLIENT_SECRET: 's', AZURE_TOKEN_CREDENTIALS: 'dev' },
      MACHINE,
    ],
  ])('%s', (_name, env, expected) => {
    expect(identityIn(env)).toMatchObject(expected);
  });

  it('a tenant that cannot be one is InvalidConfig, and is not repeated', () => {
    const env = { AZURE_TENANT_ID: 'canary canary', AZURE_CLIENT_ID: 'c', AZURE_CLIENT_SECRET: 's' };
    expect(() => identityIn(env)).toThrow(
      expect.objectContaining({
        code: 'InvalidConfig',
        message: 'AZURE_TENANT_ID is neither the id nor the domain of a tenant',
      }),
    );
  });
});
