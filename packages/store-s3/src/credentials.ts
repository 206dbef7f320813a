/**
 * Credentials as AWS tools find them. What asks for them is loaded when the first request is sent.
 */

import { type Expiring, type HttpTransport, Renewed } from '@holdfast/cloud-http';
import { unlessAborted } from '@holdfast/core/contract';
import type { AwsCredentialIdentity } from '@smithy/types';
import type { S3Config, S3Credentials } from './config.ts';
import { credentialsSource, failureOf } from './credentials-source.ts';
import { CredentialsRequestHandler } from './sdk-request-handler.ts';

/** The SDK warns on standard error of what our documents say. */
const SILENT = { debug: ignore, info: ignore, warn: ignore, error: ignore };

export interface CredentialsOptions {
  /** Hands on answers of every status. */
  readonly transport: HttpTransport;
  readonly region: () => Promise<string>;
}

export class Credentials {
  readonly #static: AwsCredentialIdentity | undefined;
  readonly #renewed: Renewed<AwsCredentialIdentity>;

  constructor(config: S3Config, options: CredentialsOptions) {
    this.#static = config.credentials && identityOf(config.credentials);
    const source = credentialsSource(config);
    const requestHandler = new CredentialsRequestHandler(options.transport);
    let provider: Promise<Provider> | undefined;
    this.#renewed = new Renewed({
      fetch: async (signal) => {
        requestHandler.signal = signal;
        provider ??= providerOf(config, options.region, requestHandler);
        return expiring(await (await provider)({ forceRefresh: true, signal }));
      },
      source: () => source.name,
      failure: (error, wasGiven) => failureOf(error, config, { source, wasGiven }),
    });
  }

  /** As the SDK wants it. `CredentialsError`: there are none. */
  readonly provider = async (): Promise<AwsCredentialIdentity> => this.#static ?? this.#renewed.current();

  /** After a refusal. False: they are the same as before. */
  async renew(): Promise<boolean> {
    if (this.#static !== undefined) return false;
    const before = await this.#renewed.current();
    const after = await this.#renewed.renew(before);
    return after.sessionToken !== before.sessionToken || after.accessKeyId !== before.accessKeyId;
  }
}

type Provider = (options: {
  readonly forceRefresh: boolean;
  readonly signal: AbortSignal;
}) => Promise<AwsCredentialIdentity>;

/**
 * A profile that is named is asked alone: what it does not give is not to come from the machine,
 * whose rights are others.
 */
async function providerOf(
  { profile, credentialsKind }: S3Config,
  region: () => Promise<string>,
  requestHandler: CredentialsRequestHandler,
): Promise<Provider> {
  const init = {
    logger: SILENT,
    ignoreCache: true, // files may have been written anew
    clientConfig: { requestHandler, maxAttempts: 1 }, // repeating is the engine's business
    parentClientConfig: { region, requestHandler, logger: SILENT, profile },
    ...(profile !== undefined && { profile }),
  };
  if (profile === undefined && credentialsKind === 'container') return containerProvider(init);
  if (profile === undefined) {
    const { defaultProvider } = await import('@aws-sdk/credential-provider-node');
    return defaultProvider(init as Parameters<typeof defaultProvider>[0]) as Provider;
  }
  const { fromIni } = await import('@aws-sdk/credential-provider-ini');
  return () => fromIni(init as Parameters<typeof fromIni>[0])();
}

/**
 * The SDK's chain passes over what a container's service answers. As there, a default profile comes
 * first. A request to it may hang for ever: it is given up when it is late.
 */
async function containerProvider(init: object): Promise<Provider> {
  const [{ fromIni }, { fromHttp }] = await Promise.all([
    import('@aws-sdk/credential-provider-ini'),
    import('@aws-sdk/credential-provider-http'),
  ]);
  return async ({ signal }) => {
    try {
      return await fromIni(init as Parameters<typeof fromIni>[0])();
    } catch (error) {
      if ((error as { tryNextLink?: unknown }).tryNextLink !== true) throw error;
    }
    return unlessAborted(fromHttp({ ...init, maxRetries: 0 } as Parameters<typeof fromHttp>[0])(), signal);
  };
}

function expiring(value: AwsCredentialIdentity): Expiring<AwsCredentialIdentity> {
  return { value, expiresAtMs: value.expiration?.getTime() };
}

function identityOf({ accessKeyId, secretAccessKey, sessionToken }: S3Credentials): AwsCredentialIdentity {
  const token = sessionToken === undefined ? {} : { sessionToken: sessionToken.reveal() };
  return { accessKeyId, secretAccessKey: secretAccessKey.reveal(), ...token };
}

function ignore(): void {
  // Nothing that the SDK says of credentials is repeated.
}
