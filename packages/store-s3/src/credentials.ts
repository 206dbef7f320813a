/**
 * Finds credentials as AWS tools do. Keys in their files are read here. The AWS SDK, which finds
 * all others, is loaded only if there are none.
 */

import { type Expiring, type HttpTransport, Renewed } from '@holdfast/cloud-http';
import { unlessAborted } from '@holdfast/core/contract';
import { profileSettings, readAwsFiles } from './aws-files.ts';
import type { S3Config, S3Credentials } from './config.ts';
import { CredentialsRequestHandler } from './credentials-request-handler.ts';
import { credentialsSource, failureOf, hasOtherKind } from './credentials-source.ts';
import { environmentOfTools } from './env.ts';
import type { AwsKeys } from './signature.ts';

/** Silences SDK warnings on standard error about what our documents already say. */
const SILENT = { debug: ignore, info: ignore, warn: ignore, error: ignore };

export interface CredentialsOptions {
  /** Returns answers of every status. */
  readonly transport: HttpTransport;
  readonly region: () => Promise<string>;
}

export class Credentials {
  readonly #static: AwsKeys | undefined;
  readonly #renewed: Renewed<AwsKeys>;
  /** Those that were used last. */
  #used: AwsKeys | undefined;

  constructor(config: S3Config, options: CredentialsOptions) {
    this.#static = config.credentials && identityOf(config.credentials);
    const source = credentialsSource(config);
    const requestHandler = new CredentialsRequestHandler(options.transport);
    let provider: Promise<Provider> | undefined;
    this.#renewed = new Renewed({
      fetch: async (signal) => {
        requestHandler.signal = signal;
        const inFile = await keysInFile(config.profile);
        if (inFile !== undefined) return { value: inFile };
        provider ??= providerOf(config, options.region, requestHandler);
        return expiring(await (await provider)({ forceRefresh: true, signal }));
      },
      source: () => source.name,
      failure: (error, wasGiven) => failureOf(error, config, { source, wasGiven }),
    });
  }

  /** `CredentialsError`: there are none. */
  async current(): Promise<AwsKeys> {
    this.#used = this.#static ?? (await this.#renewed.current());
    return this.#used;
  }

  /** Those of the credentials that were used last. */
  get secrets(): readonly string[] {
    const { secretAccessKey = '', sessionToken = '' } = this.#used ?? {};
    return [secretAccessKey, sessionToken];
  }

  /** Fetches credentials again after a refusal. False: they are the same as before. */
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
}) => Promise<AwsKeys & { readonly expiration?: Date }>;

/**
 * Keys that the profile itself holds, as the SDK would return them. Undefined: the SDK has to
 * search, because the profile holds none, or also another kind of credentials.
 */
async function keysInFile(profile: string | undefined): Promise<AwsKeys | undefined> {
  // Without a profile the SDK looks at the environment of the process first, even if the store was
  // opened with another one.
  const { AWS_PROFILE: other, AWS_ACCESS_KEY_ID: keyId } = environmentOfTools();
  if (profile === undefined && (other || keyId)) return undefined;
  const settings = profileSettings(await readAwsFiles(), profile, 'credentials');
  const { aws_access_key_id: accessKeyId, aws_secret_access_key: secretAccessKey } = settings;
  if (hasOtherKind(settings) || accessKeyId === undefined || secretAccessKey === undefined) return undefined;
  const { aws_session_token: sessionToken } = settings;
  return { accessKeyId, secretAccessKey, ...(sessionToken !== undefined && { sessionToken }) };
}

/** A named profile is the only source: the machine's own credentials may have other permissions. */
async function providerOf(
  { profile, credentialsKind }: S3Config,
  region: () => Promise<string>,
  requestHandler: CredentialsRequestHandler,
): Promise<Provider> {
  const init = {
    logger: SILENT,
    ignoreCache: true, // Files may have been rewritten.
    clientConfig: { requestHandler, maxAttempts: 1 }, // The engine does the retries.
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
 * Credentials from a container's service. The SDK's chain drops the errors of such a service, so it
 * is asked directly. As in the chain, a default profile comes first. A request to it may hang for
 * ever, so it has a timeout.
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

function expiring(value: Awaited<ReturnType<Provider>>): Expiring<AwsKeys> {
  return { value, expiresAtMs: value.expiration?.getTime() };
}

function identityOf({ accessKeyId, secretAccessKey, sessionToken }: S3Credentials): AwsKeys {
  const token = sessionToken === undefined ? {} : { sessionToken: sessionToken.reveal() };
  return { accessKeyId, secretAccessKey: secretAccessKey.reveal(), ...token };
}

function ignore(): void {
  // Drop the SDK's messages about credentials.
}
