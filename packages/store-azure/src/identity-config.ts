import { Secret } from '@holdfast/cloud-http';
import { CheckpointError } from '@holdfast/core/contract';

export type AzureEnvironment = Readonly<Record<string, string | undefined>>;

/**
 * Identity for tokens of Microsoft Entra ID. `machine`: what `DefaultAzureCredential` finds when a
 * token is needed.
 */
export type AzureIdentity =
  | (Application & { readonly kind: 'secret'; readonly secret: Secret })
  | (Application & {
      readonly kind: 'certificate';
      /** Path of a PEM file with certificate and key. */
      readonly path: string;
      readonly password?: Secret | undefined;
      readonly sendsChain: boolean;
    })
  | (Application & { readonly kind: 'workload'; readonly path: string })
  | { readonly kind: 'machine' };

interface Application {
  readonly tenantId: string;
  readonly clientId: string;
}

/**
 * The first identity that the environment names completely, in the order of Microsoft's tools.
 * `InvalidConfig`: a variable has an impossible value.
 */
export function identityIn(env: AzureEnvironment): AzureIdentity {
  const { AZURE_TENANT_ID: tenantId, AZURE_CLIENT_ID: clientId } = env;
  const allowed = env.AZURE_TOKEN_CREDENTIALS?.trim().toLowerCase() || 'prod';
  if (tenantId && !/^[A-Za-z0-9.-]+$/.test(tenantId))
    throw new CheckpointError(
      'InvalidConfig',
      'AZURE_TENANT_ID is neither the id nor the domain of a tenant',
    );
  if (!tenantId || !clientId) return { kind: 'machine' };
  const { AZURE_CLIENT_SECRET: secret, AZURE_CLIENT_CERTIFICATE_PATH: path } = env;
  if (allowed === 'prod' || allowed === 'environmentcredential') {
    if (secret) return { kind: 'secret', tenantId, clientId, secret: new Secret(secret) };
    if (path) return { kind: 'certificate', tenantId, clientId, path, ...certificateIn(env) };
  }
  const tokenPath = env.AZURE_FEDERATED_TOKEN_FILE;
  if (tokenPath && (allowed === 'prod' || allowed === 'workloadidentitycredential'))
    return { kind: 'workload', tenantId, clientId, path: tokenPath };
  return { kind: 'machine' };
}

function certificateIn(env: AzureEnvironment): { password?: Secret; sendsChain: boolean } {
  const { AZURE_CLIENT_CERTIFICATE_PASSWORD: password, AZURE_CLIENT_SEND_CERTIFICATE_CHAIN: chain = '' } =
    env;
  const sendsChain = chain === '1' || chain.toLowerCase() === 'true';
  return password ? { password: new Secret(password), sendsChain } : { sendsChain };
}
