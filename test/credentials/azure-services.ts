/**
 * Local services that issue Azure tokens: Microsoft Entra ID, and the hosts of managed identities.
 */

import { execFile } from 'node:child_process';
import { constants, createPublicKey, verify, X509Certificate } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Reply, type SeenRequest, startScriptedServer } from '../scripted/scripted-server.ts';
import { json } from './aws-services.ts';
import { startNamedHosts } from './named-hosts.ts';

const TENANT = '11111111-2222-3333-4444-555555555555';
export const CLIENT_SECRET = 'canary-client-secret';
export const FEDERATED_TOKEN = 'canary-federated-token';
const IDENTITY_HEADER = 'canary-identity-header';

export const AZURE_SECRETS = [
  ...[CLIENT_SECRET, FEDERATED_TOKEN, IDENTITY_HEADER],
  ...['canary-token', 'canary-words-of-entra'],
];

export const APPLICATION = {
  AZURE_TENANT_ID: TENANT,
  AZURE_CLIENT_ID: '66666666-2222-3333-4444-555555555555',
};

export type AzureService = 'secret' | 'certificate' | 'workload' | 'app service' | 'virtual machine';

export interface AzureServices {
  /** Variables for credentials that ask Entra. */
  readonly env: Readonly<Record<string, string>>;
  /** Variables for credentials that ask their host. */
  readonly ofAppService: Readonly<Record<string, string>>;
  readonly ofVirtualMachine: Readonly<Record<string, string>>;
  readonly given: AzureService[];
  readonly tokens: string[];
  readonly instead: Map<AzureService, Reply>;
  lifeS: number;
  stop(): Promise<void>;
}

/** Writes `identity.pem`, a certificate with its key, into `directory`. */
export async function startAzureServices(directory: string): Promise<AzureServices> {
  const certificate = await makeIdentity(directory);
  const given: AzureService[] = [];
  const tokens: string[] = [];
  const instead = new Map<AzureService, Reply>();
  const script = (request: SeenRequest): Reply => {
    const service = serviceOf(request);
    const other = instead.get(service);
    if (other !== undefined) return other;
    if (!isAllowed(service, request, certificate)) return entraRefusal(401, 'invalid_client', 7000215);
    const token = `canary-token-${tokens.length}`;
    given.push(service);
    tokens.push(token);
    return json({
      ...{ access_token: token, token_type: 'Bearer', resource: 'https://storage.azure.com' },
      ...{ expires_in: services.lifeS, expires_on: nowS() + services.lifeS },
    });
  };
  const entra = await startNamedHosts(['login.microsoftonline.com'], script);
  const host = await startScriptedServer(script);
  const services: AzureServices = {
    env: entra.env,
    ofAppService: { IDENTITY_ENDPOINT: `${host.endpoint}/msi/token`, IDENTITY_HEADER },
    ofVirtualMachine: { AZURE_POD_IDENTITY_AUTHORITY_HOST: host.endpoint },
    ...{ given, tokens, instead, lifeS: 3600 },
    async stop() {
      await Promise.all([entra.stop(), host.stop()]);
    },
  };
  return services;
}

const nowS = () => Math.floor(Date.now() / 1000);

/** In the format of Entra. */
export function entraRefusal(status: number, error: string, number: number): Reply {
  return json({ error, error_description: 'canary-words-of-entra', error_codes: [number] }, status);
}

async function makeIdentity(directory: string): Promise<X509Certificate> {
  const words =
    'req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=trainer -keyout key.pem -out certificate.pem';
  await promisify(execFile)('openssl', words.split(' '), { cwd: directory });
  const [certificate, key] = await Promise.all(
    ['certificate.pem', 'key.pem'].map((name) => readFile(join(directory, name), 'utf8')),
  );
  await writeFile(join(directory, 'identity.pem'), `${certificate}${key}`);
  return new X509Certificate(certificate ?? '');
}

function serviceOf({ path, body }: SeenRequest): AzureService {
  if (path === '/msi/token') return 'app service';
  if (path.startsWith('/metadata/identity/oauth2/token')) return 'virtual machine';
  const form = new URLSearchParams(body.toString());
  if (form.has('client_secret')) return 'secret';
  return form.get('client_assertion')?.includes('.') ? 'certificate' : 'workload';
}

function isAllowed(service: AzureService, request: SeenRequest, certificate: X509Certificate): boolean {
  const { headers, body, path } = request;
  const form = new URLSearchParams(body.toString());
  if (service === 'app service') return headers['x-identity-header'] === IDENTITY_HEADER;
  if (service === 'virtual machine') return headers['metadata'] === 'true';
  if (path !== `/${TENANT}/oauth2/v2.0/token` || form.get('client_id') !== APPLICATION.AZURE_CLIENT_ID)
    return false;
  if (service === 'secret') return form.get('client_secret') === CLIENT_SECRET;
  const assertion = form.get('client_assertion') ?? '';
  if (service === 'workload') return assertion === FEDERATED_TOKEN;
  const [header, claims, signature = ''] = assertion.split('.');
  const key = createPublicKey(certificate.publicKey.export({ type: 'spki', format: 'pem' }));
  const pss = { key, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 };
  return verify('sha256', Buffer.from(`${header}.${claims}`), pss, Buffer.from(signature, 'base64url'));
}
