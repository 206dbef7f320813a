import { CredentialsError } from '@holdfast/cloud-http';
import { describe, expect, it } from 'vitest';
import { parseS3Config } from './config.ts';
import { credentialsSource, failureOf } from './credentials-source.ts';

const WEB_IDENTITY = { AWS_WEB_IDENTITY_TOKEN_FILE: '/token', AWS_ROLE_ARN: 'arn' };
const CONTAINER = { AWS_CONTAINER_CREDENTIALS_FULL_URI: 'http://127.0.0.1/x' };

function failed(env: Readonly<Record<string, string>>, facts: object, wasGiven = false) {
  const config = parseS3Config('s3://runs', env);
  const error = Object.assign(new Error('words with a canary'), facts);
  return failureOf(error, config, { source: credentialsSource(config), wasGiven });
}

const provider = { name: 'CredentialsProviderError' };

describe('what a failure to have credentials means', () => {
  it.each<[string, Readonly<Record<string, string>>, object, CredentialsError['code'], string]>([
    ['nothing found', {}, provider, 'Denied', 'no credentials were found in the default chain of AWS ('],
    [
      'a refusal',
      WEB_IDENTITY,
      { $metadata: { httpStatusCode: 400 } },
      'Denied',
      'the request for credentials from the web identity of AWS_WEB_IDENTITY_TOKEN_FILE was refused (Error, HTTP 400); check AWS_ROLE_ARN',
    ],
    [
      'a service that stumbles',
      WEB_IDENTITY,
      { $metadata: { httpStatusCode: 500 } },
      'Unavailable',
      'at present from the web identity',
    ],
    ['a connection that ends', WEB_IDENTITY, { code: 'CLOSED_EARLY' }, 'Unavailable', 'at present'],
    [
      'a certificate that is not trusted',
      WEB_IDENTITY,
      { code: 'TLS_FAILED' },
      'InvalidConfig',
      'is not trusted (Error, TLS_FAILED); set AWS_CA_BUNDLE or ca=',
    ],
    ['a file that may not be read', WEB_IDENTITY, { code: 'EACCES' }, 'InvalidConfig', 'cannot be read'],
    ['a proxy that wants a login', WEB_IDENTITY, { status: 407 }, 'Denied', 'the proxy requires credentials'],
    [
      'a container that is away',
      CONTAINER,
      provider,
      'Unavailable',
      'at present from the role of the container',
    ],
    [
      'a container that refuses',
      CONTAINER,
      { ...provider, Code: undefined },
      'Denied',
      'no credentials were found in the role of the container',
    ],
  ])('%s', async (_name, env, facts, code, words) => {
    const failure = await failed(env, facts);
    expect(failure).toBeInstanceOf(CredentialsError);
    expect([failure.code, failure.message]).toEqual([code, expect.stringContaining(words)]);
    expect(failure.message).not.toContain('canary');
  });

  it('where there were credentials before, what says nothing more may pass; a refusal does not', async () => {
    expect(await failed({}, provider, true)).toMatchObject({
      code: 'Unavailable',
      message:
        'the credentials have expired, and the default chain of AWS provides no new ones (CredentialsProviderError)',
    });
    expect(await failed({}, { $metadata: { httpStatusCode: 403 } }, true)).toMatchObject({ code: 'Denied' });
  });
});
