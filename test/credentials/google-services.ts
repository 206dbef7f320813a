/**
 * Local services that issue Google Cloud tokens: OAuth, the exchange of other tokens,
 * impersonation, the metadata server.
 */

import { createPublicKey, generateKeyPairSync, verify } from 'node:crypto';
import { type Reply, type SeenRequest, startScriptedServer } from '../scripted/scripted-server.ts';
import { json } from './aws-services.ts';
import { type NamedHosts, startNamedHosts } from './named-hosts.ts';

const HOSTS = ['oauth2.googleapis.com', 'iamcredentials.googleapis.com', 'sts.googleapis.com'];
const EMAIL = 'trainer@ours.iam.gserviceaccount.com';
export const SUBJECT_TOKEN = 'canary-subject-token';
const REFRESH_TOKEN = 'canary-refresh-token';
const CLIENT_SECRET = 'canary-client-secret';
const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });

export const GOOGLE_SECRETS = [SUBJECT_TOKEN, REFRESH_TOKEN, CLIENT_SECRET, 'canary-words-of-google'];

/** Credential files. */
export const SERVICE_ACCOUNT = {
  type: 'service_account',
  project_id: 'ours',
  private_key_id: 'k',
  private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
  client_email: EMAIL,
  client_id: '1',
  token_uri: 'https://oauth2.googleapis.com/token',
};
export const AUTHORIZED_USER = {
  type: 'authorized_user',
  client_id: 'c',
  client_secret: CLIENT_SECRET,
  refresh_token: REFRESH_TOKEN,
};
export const IMPERSONATION_URL = `https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/${EMAIL}:generateAccessToken`;
export const IMPERSONATED = {
  type: 'impersonated_service_account',
  service_account_impersonation_url: IMPERSONATION_URL,
  source_credentials: AUTHORIZED_USER,
};
/** `HOME` stands for the directory of the file with the subject's token. */
export const EXTERNAL_ACCOUNT = {
  type: 'external_account',
  audience: '//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q',
  subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
  token_url: 'https://sts.googleapis.com/v1/token',
  credential_source: { file: 'HOME/subject' },
};

export type GoogleService = 'service account' | 'user' | 'exchange' | 'impersonation' | 'metadata';

export interface GoogleServices {
  readonly env: Readonly<Record<string, string>>;
  /** Host and port of the metadata server. */
  readonly metadataHost: string;
  readonly given: GoogleService[];
  /** All issued tokens, in order. */
  readonly tokens: string[];
  readonly instead: Map<GoogleService, Reply>;
  /** Lifetime of tokens that are issued from now on. */
  lifeS: number;
  stop(): Promise<void>;
}

export async function startGoogleServices(): Promise<GoogleServices> {
  const given: GoogleService[] = [];
  const tokens: string[] = [];
  const instead = new Map<GoogleService, Reply>();
  const script = (request: SeenRequest): Reply => {
    const service = serviceOf(request);
    if (service === undefined) return METADATA_FLAVOR;
    const other = instead.get(service);
    if (other !== undefined) return other;
    if (!isAllowed(service, request, tokens))
      return json({ error: 'invalid_grant', error_description: 'canary-words-of-google' }, 400);
    const token = `canary-token-${tokens.length}`;
    given.push(service);
    tokens.push(token);
    return answerOf(service, token, services.lifeS);
  };
  const hosts: NamedHosts = await startNamedHosts(HOSTS, script);
  const metadata = await startScriptedServer(script);
  const services: GoogleServices = {
    env: hosts.env,
    metadataHost: `127.0.0.1:${metadata.port}`,
    ...{ given, tokens, instead, lifeS: 3600 },
    async stop() {
      await Promise.all([hosts.stop(), metadata.stop()]);
    },
  };
  return services;
}

/** The library recognises a metadata server by this header. */
const METADATA_FLAVOR = {
  headers: { 'metadata-flavor': 'Google', 'content-type': 'application/json' },
  body: '{}',
};

function serviceOf({ path, headers, body }: SeenRequest): GoogleService | undefined {
  if (path.endsWith('/service-accounts/default/token')) return 'metadata';
  if (headers['host']?.startsWith('sts.')) return 'exchange';
  if (headers['host']?.startsWith('iamcredentials.')) return 'impersonation';
  if (!headers['host']?.startsWith('oauth2.')) return undefined;
  return body.toString().includes('jwt-bearer') ? 'service account' : 'user';
}

function isAllowed(
  service: GoogleService,
  { headers, body }: SeenRequest,
  tokens: readonly string[],
): boolean {
  const form = new URLSearchParams(body.toString());
  if (service === 'metadata') return headers['metadata-flavor'] === 'Google';
  if (service === 'exchange') return form.get('subject_token') === SUBJECT_TOKEN;
  if (service === 'impersonation') return tokens.includes(bearerOf(headers['authorization']));
  if (service === 'user')
    return form.get('refresh_token') === REFRESH_TOKEN && form.get('client_secret') === CLIENT_SECRET;
  const [header, claims, signature = ''] = (form.get('assertion') ?? '').split('.');
  const key = createPublicKey(publicKey.export({ type: 'spki', format: 'pem' }));
  return verify('sha256', Buffer.from(`${header}.${claims}`), key, Buffer.from(signature, 'base64url'));
}

export function bearerOf(authorization = ''): string {
  return authorization.replace(/^Bearer /, '');
}

function answerOf(service: GoogleService, token: string, lifeS: number): Reply {
  if (service === 'impersonation') {
    const expireTime = new Date(Date.now() + lifeS * 1000).toISOString();
    return json({ accessToken: token, expireTime });
  }
  const issued = { issued_token_type: 'urn:ietf:params:oauth:token-type:access_token' };
  const { headers, body = '' } = json({
    ...{ access_token: token, expires_in: lifeS, token_type: 'Bearer' },
    ...(service === 'exchange' && issued),
  });
  return { headers: { ...headers, ...METADATA_FLAVOR.headers }, body };
}
