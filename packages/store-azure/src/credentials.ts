/** Tokens of Microsoft Entra ID, from any source of identity that the machine has. */

import type { TokenCredential, TokenCredentialOptions } from '@azure/identity';
import { CredentialsError, type Expiring, LibraryFailure, LOGIN_ADVICE, Renewed } from '@holdfast/cloud-http';
import type { AzureIdentity } from './identity-config.ts';

/** Scope for blobs in every cloud. */
const SCOPE = 'https://storage.azure.com/.default';

/** For each source of identity: its name, and what to check if it gives no token. */
const SOURCES: Readonly<Record<AzureIdentity['kind'], { readonly name: string; readonly advice: string }>> = {
  secret: {
    name: 'the client secret of AZURE_CLIENT_SECRET',
    advice: 'check AZURE_TENANT_ID and AZURE_CLIENT_ID, and whether the secret has expired',
  },
  certificate: {
    name: 'the certificate of AZURE_CLIENT_CERTIFICATE_PATH',
    advice: 'check AZURE_TENANT_ID and AZURE_CLIENT_ID, and whether the certificate is registered there',
  },
  workload: {
    name: 'the workload identity of AZURE_FEDERATED_TOKEN_FILE',
    advice: 'check AZURE_TENANT_ID and AZURE_CLIENT_ID, and the federated credential of the application',
  },
  machine: {
    name: 'the identity of the machine',
    advice:
      'set AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING, sign in with `az login`, or give the machine an identity',
  },
};

export type IdentityTokens = Renewed<string>;

/**
 * `find`: makes a new credential of the library for each token, because a credential would return a
 * rejected token from its cache.
 */
export function identityTokens(
  identity: AzureIdentity,
  find: (identity: AzureIdentity, signal: AbortSignal) => Promise<TokenCredential> = credentialOf,
): IdentityTokens {
  return new Renewed({
    fetch: async (signal) => tokenOf(await find(identity, signal)),
    source: () => SOURCES[identity.kind].name,
    failure: (error, wasGiven) => failureOf(error, identity, wasGiven),
  });
}

async function tokenOf(credential: TokenCredential): Promise<Expiring<string>> {
  const given = await credential.getToken(SCOPE);
  if (given === null) throw new Error('the library returned no token');
  return { value: given.token, expiresAtMs: given.expiresOnTimestamp };
}

/**
 * The library is loaded only when needed: it takes a third of a second. Its chain reports every
 * failure of the environment as "HTTP 400", even a network failure. So an identity named by the
 * environment is used directly.
 */
async function credentialOf(identity: AzureIdentity, signal: AbortSignal): Promise<TokenCredential> {
  const library = await import('@azure/identity');
  const additionalPolicies = [{ policy: stoppedBy(signal), position: 'perRetry' as const }];
  if (identity.kind === 'machine') return new library.DefaultAzureCredential({ additionalPolicies });
  const { tenantId, clientId } = identity;
  // The engine does the retries.
  const options = { additionalPolicies, retryOptions: { maxRetries: 0 } };
  if (identity.kind === 'secret')
    return new library.ClientSecretCredential(tenantId, clientId, identity.secret.reveal(), options);
  if (identity.kind === 'workload')
    return new library.WorkloadIdentityCredential({
      ...options,
      tenantId,
      clientId,
      tokenFilePath: identity.path,
    });
  const { path: certificatePath, password, sendsChain: sendCertificateChain } = identity;
  const certificatePassword = password?.reveal();
  return new library.ClientCertificateCredential(
    tenantId,
    clientId,
    { certificatePath, ...(certificatePassword !== undefined && { certificatePassword }) },
    { ...options, sendCertificateChain },
  );
}

type Policy = NonNullable<TokenCredentialOptions['additionalPolicies']>[number]['policy'];

/** Adds the signal to the library's requests, because the library has no option for it. */
function stoppedBy(signal: AbortSignal): Policy {
  return {
    name: 'stopped-when-late',
    sendRequest: (request, next) => {
      request.abortSignal = signal;
      return next(request);
    },
  };
}

function failureOf(error: unknown, { kind }: AzureIdentity, wasGiven: boolean): CredentialsError {
  const failure = new LibraryFailure(error);
  const { message, status, code, isTemporary } = failure;
  const { name, advice } = SOURCES[kind];
  const told = (to: CredentialsError['code'], what: string) => new CredentialsError(to, what, failure);
  if (status === 407)
    return told('Denied', `no token: the proxy requires credentials (${message}); ${LOGIN_ADVICE}`);
  // There was a token before, so the failure is treated as temporary.
  if (wasGiven) return told('Unavailable', `the token has expired, and no new one is available (${message})`);
  if (kind === 'machine') return told('Denied', `no credentials were found (${message}); ${advice}`);
  // The library's name for an authority that it could not reach for its endpoints.
  const isAway = isTemporary || failure.kind === 'CredentialUnavailableError';
  if (isAway) return told('Unavailable', `no token at present from ${name} (${message}); ${advice}`);
  if (code === 'ENOENT' || code === 'EACCES')
    return told('InvalidConfig', `a file for ${name} cannot be read (${message}); ${advice}`);
  if (status === undefined) return told('InvalidConfig', `${name} cannot be used (${message}); ${advice}`);
  return told('Denied', `the request for a token with ${name} was refused (${message}); ${advice}`);
}
