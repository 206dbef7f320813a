/**
 * Connection to one bucket. Requests that move objects are built here and signed by the SDK's
 * signer, because the SDK's middleware costs more than the request itself. All other requests go
 * through the SDK's client. Both share transport, credentials, region and the corrections below.
 */

import { S3Client } from '@aws-sdk/client-s3';
import {
  brokenAnswer,
  CredentialsError,
  type HttpRefusal,
  type HttpTransport,
  isLoopback,
  LibraryFailure,
  Remedies,
  type Remedy,
  type SendOptions,
  StoreClock,
  serverOf,
  type TransportAnswer,
} from '@holdfast/cloud-http';
import { loadConfig, NODE_REGION_CONFIG_FILE_OPTIONS, NODE_REGION_CONFIG_OPTIONS } from '@smithy/core/config';
import { escapeUriPath, type HttpHandler, HttpRequest } from '@smithy/core/protocols';
import { SignatureV4 } from '@smithy/signature-v4';
import type { S3Config } from './config.ts';
import { Credentials } from './credentials.ts';
import { S3Refusal } from './errors.ts';
import { type Operation, settingHeaders } from './headers.ts';
import { type CommandOptions, SdkRequestHandler } from './sdk-request-handler.ts';
import { Sha256 } from './sha256.ts';
import { toTransportRequest } from './signed-request.ts';

/** SHA-256 of no bytes. */
const EMPTY_SHA256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';
const DEFAULT_REGION = 'us-east-1';

const OPERATIONS: Readonly<Record<string, Operation>> = {
  CopyObjectCommand: 'create',
  CreateMultipartUploadCommand: 'beginUpload',
  ListPartsCommand: 'listParts',
  CompleteMultipartUploadCommand: 'complete',
};

export interface ObjectRequest extends SendOptions {
  readonly operation: Operation;
  readonly method: 'GET' | 'HEAD' | 'PUT';
  /** From the root of the bucket. */
  readonly key: string;
  readonly query?: Readonly<Record<string, string>> | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: Uint8Array | undefined;
}

interface Endpoint {
  readonly protocol: 'http:' | 'https:';
  readonly hostname: string;
  readonly port: number;
  readonly host: string;
  /** Without a '/' at its end. */
  readonly path: string;
  readonly signsBodies: boolean;
}

export class S3Connection {
  readonly #config: S3Config;
  readonly #transport: HttpTransport;
  readonly #ofCredentials: HttpTransport;
  readonly #credentials: Credentials;
  readonly #sdk: S3Client;
  readonly #signer: SignatureV4;
  readonly #headers: ReturnType<typeof settingHeaders>;
  readonly #remedies = new Remedies();
  readonly #clock = new StoreClock();
  #region: string | undefined;
  #endpoint: { readonly region: string; readonly value: Endpoint } | undefined;
  #wasMoved = false;

  /**
   * `ofCredentials`: transport to the services that issue credentials. Their refusals are
   * `RefusedCredentials`.
   */
  constructor(config: S3Config, transport: HttpTransport, ofCredentials: HttpTransport) {
    this.#config = config;
    this.#transport = transport;
    this.#headers = settingHeaders(config);
    this.#ofCredentials = ofCredentials;
    const region = () => this.#currentRegion();
    this.#credentials = new Credentials(config, { transport: ofCredentials, region });
    // Marked as memoized, or the SDK keeps a second copy.
    const credentials = Object.assign(this.#credentials.provider, { memoized: true });
    this.#sdk = new S3Client({
      region,
      ...(config.endpoint !== undefined && { endpoint: config.endpoint }),
      ...(config.profile !== undefined && { profile: config.profile }),
      credentials,
      forcePathStyle: config.pathStyle,
      requestHandler: new SdkRequestHandler(transport) as HttpHandler,
      sha256: Sha256,
      maxAttempts: 1,
      expectContinueHeader: false,
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
    });
    this.#sdk.middlewareStack.add(
      (next, { commandName }) =>
        (args) => {
          const operation = OPERATIONS[commandName ?? ''] ?? 'other';
          Object.assign((args.request as HttpRequest).headers, this.#headers[operation]);
          return next(args);
        },
      { step: 'build', name: 'settingHeaders' },
    );
    this.#signer = new SignatureV4({
      credentials,
      region,
      service: 's3',
      sha256: Sha256,
      uriEscapePath: false,
      applyChecksum: true,
    });
  }

  /** Sends one request about one object. A non-2xx answer is thrown as `S3Refusal`. */
  send(request: ObjectRequest): Promise<TransportAnswer> {
    return this.#remedies.run(
      async () => this.#transport.send(toTransportRequest(await this.#signed(request)), request),
      (refusal) => this.#remedyFor(refusal),
    );
  }

  /**
   * Sends one command of the SDK. `call` receives the client and the options to send with. The
   * returned headers are those of the answer.
   */
  command<Output>(
    signal: AbortSignal | undefined,
    call: (sdk: S3Client, options: CommandOptions) => Promise<Output>,
  ): Promise<{ output: Output; headers: Readonly<Record<string, string>> }> {
    const send = async () => {
      const options: CommandOptions = signal === undefined ? {} : { abortSignal: signal };
      const output = await call(this.#sdk, options).catch((error: unknown) => {
        if (options.transportError !== undefined) throw options.transportError.error;
        if (options.answerHeaders !== undefined && options.isRead === true)
          throw brokenAnswer('the AWS SDK cannot read it');
        throw failureOf(error);
      });
      return { output, headers: options.answerHeaders ?? {} };
    };
    return this.#remedies.run(send, (refusal) => this.#remedyFor(refusal));
  }

  /** The secrets of the credentials that were used last. The server knows them. */
  get secrets(): readonly string[] {
    return this.#credentials.secrets;
  }

  /** True if the bucket is in another region than requests were first signed for. */
  get wasMoved(): boolean {
    return this.#wasMoved;
  }

  async close(): Promise<void> {
    this.#sdk.destroy();
    await Promise.all([this.#transport.close(), this.#ofCredentials.close()]);
  }

  async #signed(request: ObjectRequest): Promise<HttpRequest> {
    const { protocol, hostname, port, host, path, signsBodies } = await this.#resolveEndpoint();
    const { body } = request;
    const unsigned = new HttpRequest({
      protocol,
      hostname,
      port,
      method: request.method,
      path: `${path}/${escapeUriPath(request.key)}`,
      query: { ...request.query },
      headers: { host, ...this.#headers[request.operation], ...request.headers },
      body,
    });
    if (body === undefined) unsigned.headers['x-amz-content-sha256'] = EMPTY_SHA256;
    else {
      unsigned.headers['content-length'] = String(body.byteLength);
      if (!signsBodies) unsigned.headers['x-amz-content-sha256'] = 'UNSIGNED-PAYLOAD';
    }
    return this.#signer.sign(unsigned, { signingDate: this.#clock.now() }).catch((error: unknown) => {
      throw failureOf(error);
    }) as Promise<HttpRequest>;
  }

  #remedyFor(refusal: HttpRefusal): Remedy | undefined {
    if (!(refusal instanceof S3Refusal)) return undefined;
    const { code, status, region } = refusal;
    if (code === 'RequestTimeTooSkewed') return () => this.#adjustClock(refusal);
    if (code === 'ExpiredToken' || code === 'InvalidToken') return () => this.#credentials.renew();
    if (region === undefined || ![301, 307, 400, 403].includes(status)) return undefined;
    return () => this.#moveTo(region);
  }

  #moveTo(region: string): boolean {
    const isElsewhere = region !== this.#region;
    this.#region = region;
    this.#wasMoved = true;
    return isElsewhere;
  }

  #adjustClock(refusal: HttpRefusal): boolean {
    const isAdjusted = this.#clock.adjust(refusal);
    this.#sdk.config.systemClockOffset = this.#clock.offsetMs;
    return isAdjusted;
  }

  async #currentRegion(): Promise<string> {
    this.#region ??= this.#config.region ?? (await configuredRegion(this.#config.profile));
    return this.#region;
  }

  async #resolveEndpoint(): Promise<Endpoint> {
    const region = await this.#currentRegion();
    if (this.#endpoint?.region === region) return this.#endpoint.value;
    const { config } = this.#sdk;
    const { url } = config.endpointProvider({
      Bucket: this.#config.bucket,
      Region: region,
      ForcePathStyle: this.#config.pathStyle,
      UseFIPS: await config.useFipsEndpoint(),
      UseDualStack: await config.useDualstackEndpoint(),
      Accelerate: false,
      UseGlobalEndpoint: false,
      ...(this.#config.endpoint !== undefined && { Endpoint: this.#config.endpoint }),
    });
    const value = endpointOf(url, this.#config.payload);
    this.#endpoint = { region, value };
    return value;
  }
}

/** The SDK's own error texts are dropped: they quote what it has read. */
function failureOf(error: unknown): Error {
  return error instanceof CredentialsError ? error : new LibraryFailure(error);
}

function endpointOf(url: URL, payload: S3Config['payload']): Endpoint {
  const { protocol, hostname, port, basePath } = serverOf(url);
  return {
    protocol,
    hostname,
    port,
    host: url.host,
    path: basePath,
    signsBodies:
      payload === 'signed' || (payload === 'auto' && protocol === 'http:' && !isLoopback(hostname)),
  };
}

async function configuredRegion(profile: string | undefined): Promise<string> {
  const selectors = { ...NODE_REGION_CONFIG_OPTIONS, default: DEFAULT_REGION };
  return loadConfig(selectors, {
    ...NODE_REGION_CONFIG_FILE_OPTIONS,
    ...(profile !== undefined && { profile }),
  })();
}
