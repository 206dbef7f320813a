/**
 * Local services that issue AWS credentials: STS, single sign-on, and the services of a container
 * and of an instance.
 */

import {
  type Answer,
  type Reply,
  type SeenRequest,
  startScriptedServer,
} from '../scripted/scripted-server.ts';
import type { S3Credentials } from '../servers/s3-access.ts';

export const WEB_IDENTITY_TOKEN = 'canary-web-identity-token';
export const SSO_TOKEN = 'canary-sso-access-token';
export const SSO_REFRESH_TOKEN = 'canary-sso-refresh-token';
export const CONTAINER_TOKEN = 'canary-container-token';
const METADATA_TOKEN = 'canary-imds-token';
const ROLE = 'trainer';
const METADATA_ROLES = '/latest/meta-data/iam/security-credentials/';

/**
 * The service that received a request: `AssumeRole` and `AssumeRoleWithWebIdentity` of STS, and the
 * others.
 */
export type AwsService =
  | 'AssumeRole'
  | 'AssumeRoleWithWebIdentity'
  | 'single sign-on'
  | 'login'
  | 'container'
  | 'instance';

export interface AwsServices {
  readonly endpoint: string;
  /** The services that issued credentials, in order. */
  readonly given: AwsService[];
  /** Replies that replace a service's own. */
  readonly instead: Map<AwsService, Reply>;
  stop(): Promise<void>;
}

export interface AwsServicesOptions {
  /** Returns new credentials at each call. The store must accept them. */
  readonly credentials: () => Promise<Required<S3Credentials>>;
  /** The expiry of all issued credentials. */
  readonly expiration?: () => Date;
}

export async function startAwsServices({
  credentials,
  expiration = () => new Date(Date.now() + 3_600_000),
}: AwsServicesOptions): Promise<AwsServices> {
  const given: AwsService[] = [];
  /** Keys that may assume a role. */
  const known = ['SOURCE'];
  const instead = new Map<AwsService, Reply>();
  const server = await startScriptedServer(async (request): Promise<Reply> => {
    if (request.path === '/latest/api/token')
      return instead.has('instance') ? (instead.get('instance') as Reply) : { body: METADATA_TOKEN };
    const service = serviceOf(request);
    if (service === undefined) return { status: 404, body: `no service is at ${request.target}` };
    const other = instead.get(service);
    if (other !== undefined) return other;
    if (!isAllowed(service, request, known))
      return { status: 403, body: `${service} refuses what it was sent` };
    if (request.path === METADATA_ROLES) return { body: ROLE };
    given.push(service);
    const own = await credentials();
    known.push(own.accessKeyId);
    return answerOf(service, own, expiration());
  });
  return { endpoint: server.endpoint, given, instead, stop: server.stop };
}

/** The variables that direct the SDK to these services. */
export function endpointsOf({ endpoint }: AwsServices): Record<string, string> {
  return {
    AWS_ENDPOINT_URL_STS: endpoint,
    AWS_ENDPOINT_URL_SSO: endpoint,
    AWS_ENDPOINT_URL_SSO_OIDC: endpoint,
    AWS_EC2_METADATA_SERVICE_ENDPOINT: endpoint,
  };
}

function serviceOf({ method, path, body }: SeenRequest): AwsService | undefined {
  if (method === 'POST' && path === '/')
    return new URLSearchParams(body.toString()).get('Action') as AwsService;
  if (path === '/token') return 'login';
  if (path === '/federation/credentials') return 'single sign-on';
  if (path === '/container') return 'container';
  return path.startsWith(METADATA_ROLES) ? 'instance' : undefined;
}

function isAllowed(service: AwsService, { headers, body }: SeenRequest, known: readonly string[]): boolean {
  const form = new URLSearchParams(body.toString());
  if (service === 'AssumeRole')
    return known.some((key) => headers['authorization']?.includes(`Credential=${key}/`));
  if (service === 'AssumeRoleWithWebIdentity') return form.get('WebIdentityToken') === WEB_IDENTITY_TOKEN;
  if (service === 'single sign-on') return headers['x-amz-sso_bearer_token'] === SSO_TOKEN;
  if (service === 'login') return body.toString().includes(SSO_REFRESH_TOKEN);
  if (service === 'container') return headers['authorization'] === CONTAINER_TOKEN;
  return headers['x-aws-ec2-metadata-token'] === METADATA_TOKEN;
}

function answerOf(service: AwsService, own: Required<S3Credentials>, expiration: Date): Answer {
  const { accessKeyId: AccessKeyId, secretAccessKey: SecretAccessKey, sessionToken } = own;
  const Expiration = expiration.toISOString().replace(/\.\d+Z$/, 'Z');
  if (service === 'single sign-on')
    return json({ roleCredentials: { ...own, expiration: expiration.getTime() } });
  if (service === 'login') return json({ accessToken: SSO_TOKEN, expiresIn: 3600, tokenType: 'Bearer' });
  if (service === 'container') return json({ AccessKeyId, SecretAccessKey, Token: sessionToken, Expiration });
  if (service === 'instance')
    return json({ Code: 'Success', AccessKeyId, SecretAccessKey, Token: sessionToken, Expiration });
  const fields = { AccessKeyId, SecretAccessKey, SessionToken: sessionToken, Expiration };
  const elements = Object.entries(fields).map(([name, value]) => `<${name}>${value}</${name}>`);
  const result = `<${service}Result><Credentials>${elements.join('')}</Credentials></${service}Result>`;
  return xml(
    200,
    `<${service}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/">${result}</${service}Response>`,
  );
}

/** A rejection in the format of STS. */
export function stsRefusal(status: number, code: string): Answer {
  const error = `<Error><Type>Sender</Type><Code>${code}</Code><Message>canary-words-of-sts</Message></Error>`;
  return xml(status, `<ErrorResponse>${error}<RequestId>1</RequestId></ErrorResponse>`);
}

function xml(status: number, body: string): Answer {
  return { status, headers: { 'content-type': 'text/xml' }, body };
}

export function json(body: object, status = 200): Answer {
  return { status, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
}
