/** Describes where credentials are searched, and what a failure to find them means. */

import { CredentialsError, LibraryFailure, LOGIN_ADVICE } from '@holdfast/cloud-http';
import { type ProfileSettings, profileSettings, readAwsFiles } from './aws-files.ts';
import type { S3Config, S3CredentialsKind } from './config.ts';

export interface CredentialsSource {
  readonly name: string;
  readonly advice: string;
}

const ANY = 'set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or give the machine a role';

const OF_MACHINE: Readonly<Record<S3CredentialsKind, CredentialsSource>> = {
  'web-identity': {
    name: 'the web identity of AWS_WEB_IDENTITY_TOKEN_FILE',
    advice: 'check AWS_ROLE_ARN, the trust policy of that role, and that the file has a valid token',
  },
  container: {
    name: 'the role of the container',
    advice: 'check AWS_CONTAINER_CREDENTIALS_FULL_URI, or the role of the task or pod',
  },
  any: { name: 'the default chain of AWS', advice: ANY },
};

export function credentialsSource({ profile, credentialsKind }: S3Config): CredentialsSource {
  if (profile === undefined) return OF_MACHINE[credentialsKind];
  return { name: `the profile "${profile}"`, advice: 'check ~/.aws/config and ~/.aws/credentials' };
}

/** The first setting that a profile contains decides its kind. */
const KINDS: readonly (readonly [setting: string, name: string, advice: string])[] = [
  ['role_arn', 'the role', 'check role_arn and the trust policy of that role'],
  ['sso_session', 'the single sign-on', 'run `aws sso login`'],
  ['sso_start_url', 'the single sign-on', 'run `aws sso login`'],
  ['login_session', 'the login', 'run `aws login`'],
  ['credential_process', 'the credential_process', 'run it by hand to see its output'],
];

/** Settings that lead to other credentials than keys in the profile itself. */
const OF_OTHER_KINDS = [
  ...KINDS.map(([setting]) => setting),
  'source_profile',
  'credential_source',
  'web_identity_token_file',
  'sso_account_id',
  'sso_region',
  'sso_role_name',
];

export function hasOtherKind(settings: ProfileSettings): boolean {
  return OF_OTHER_KINDS.some((setting) => settings[setting] !== undefined);
}

/**
 * Explains a failure. The SDK's own text is dropped, as it quotes what it has read. The kind of a
 * profile is read from the profile.
 */
export async function failureOf(
  error: unknown,
  { profile, credentialsKind }: S3Config,
  { source, wasGiven }: { readonly source: CredentialsSource; readonly wasGiven: boolean },
): Promise<CredentialsError> {
  const failure = new LibraryFailure(error);
  if (wasGiven && failure.status === undefined) {
    // Many of the SDK's errors do not say whether they are temporary. If there were credentials
    // before, the failure is treated as temporary.
    const what = `the credentials have expired, and ${source.name} provides no new ones (${failure.message})`;
    return new CredentialsError('Unavailable', what, failure);
  }
  if (profile === undefined) {
    const isOfContainer = credentialsKind === 'container' && isAway(error);
    return judged(failure, source, isOfContainer || failure.isTemporary);
  }
  const settings = profileSettings(await readAwsFiles(), profile, 'credentials');
  if (Object.keys(settings).length === 0) {
    const what = `${source.name} is in neither ~/.aws/config nor ~/.aws/credentials; set AWS_PROFILE or profile= to one that is there`;
    return new CredentialsError('InvalidConfig', what, failure);
  }
  const [, name, advice = source.advice] = KINDS.find(([setting]) => settings[setting] !== undefined) ?? [];
  const named = { name: name === undefined ? source.name : `${name} of ${source.name}`, advice };
  return judged(failure, named, failure.isTemporary);
}

/**
 * Tells whether the source of credentials is unavailable. The SDK passes on the status of a refusal
 * by a container's service. If it could not connect, it reports only a text.
 */
function isAway(error: unknown): boolean {
  return error instanceof Error && error.name === 'CredentialsProviderError' && !('Code' in error);
}

function judged(
  failure: LibraryFailure,
  { name, advice }: CredentialsSource,
  mayPass: boolean,
): CredentialsError {
  const { code, status, message } = failure;
  const error = (to: CredentialsError['code'], what: string) => new CredentialsError(to, what, failure);
  if (status === 407)
    return error('Denied', `no credentials: the proxy requires credentials (${message}); ${LOGIN_ADVICE}`);
  if (mayPass) return error('Unavailable', `no credentials at present from ${name} (${message})`);
  if (code === 'TLS_FAILED')
    return error(
      'InvalidConfig',
      `the certificate of the server that provides ${name} is not trusted (${message}); set AWS_CA_BUNDLE or ca=`,
    );
  if (code === 'ENOENT' || code === 'EACCES' || code === 'EISDIR')
    return error('InvalidConfig', `a file for ${name} cannot be read (${message}); ${advice}`);
  if (status !== undefined)
    return error('Denied', `the request for credentials from ${name} was refused (${message}); ${advice}`);
  return error('Denied', `no credentials were found in ${name} (${message}); ${advice}`);
}
