/** Connection to one bucket: its address, region, clock and credentials. Signs every request. */

import {
  type HttpRefusal,
  type HttpTransport,
  isLoopback,
  Remedies,
  type Remedy,
  type SendOptions,
  StoreClock,
  secretsOfQuery,
  type TransportAnswer,
} from '@holdfast/cloud-http';
import { profileSettings, readAwsFiles } from './aws-files.ts';
import type { S3Config } from './config.ts';
import { Credentials } from './credentials.ts';
import { type Endpoint, endpointFlag, endpointOf } from './endpoint.ts';
import { S3Refusal } from './errors.ts';
import { type Operation, settingHeaders } from './headers.ts';
import { pathText, queryText, Signer, secretsOf, sha256Hex } from './signature.ts';

const DEFAULT_REGION = 'us-east-1';

export interface S3Request extends SendOptions {
  readonly operation: Operation;
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE';
  /** From the root of the bucket. Omitted: the request is about the bucket. */
  readonly key?: string | undefined;
  readonly query?: Readonly<Record<string, string>> | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: Uint8Array | undefined;
}

/** What the files of AWS tools say, completed by the settings of the store. */
interface Place {
  readonly region: string;
  readonly fips: boolean;
  readonly dualStack: boolean;
}

export class S3Connection {
  readonly #config: S3Config;
  readonly #transport: HttpTransport;
  readonly #ofCredentials: HttpTransport;
  readonly #credentials: Credentials;
  readonly #signer = new Signer();
  readonly #headers: ReturnType<typeof settingHeaders>;
  readonly #remedies = new Remedies();
  readonly #clock = new StoreClock();
  #place: Promise<Place> | undefined;
  /** The region that an answer named. */
  #movedTo: string | undefined;
  #endpoint: { readonly region: string; readonly value: Endpoint } | undefined;

  /**
   * `ofCredentials`: transport to the services that issue credentials. Their refusals are
   * `RefusedCredentials`.
   */
  constructor(config: S3Config, transport: HttpTransport, ofCredentials: HttpTransport) {
    this.#config = config;
    this.#transport = transport;
    this.#headers = settingHeaders(config);
    this.#ofCredentials = ofCredentials;
    const region = async () => (await this.#currentPlace()).region;
    this.#credentials = new Credentials(config, { transport: ofCredentials, region });
  }

  /** Sends one request. A non-2xx answer is thrown as `S3Refusal`. */
  send(request: S3Request): Promise<TransportAnswer> {
    return this.#remedies.run(
      () => this.#send(request),
      (refusal) => this.#remedyFor(refusal),
    );
  }

  /** The secrets of the credentials that were used last. The server knows them. */
  get secrets(): readonly string[] {
    return this.#credentials.secrets;
  }

  /** True if the bucket is in another region than requests were first signed for. */
  get wasMoved(): boolean {
    return this.#movedTo !== undefined;
  }

  async close(): Promise<void> {
    await Promise.all([this.#transport.close(), this.#ofCredentials.close()]);
  }

  async #send(request: S3Request): Promise<TransportAnswer> {
    const { method, operation, key = '', body } = request;
    const { path: root, host, signingRegion, ...server } = await this.#currentEndpoint();
    const keys = await this.#credentials.current();
    const query = queryText(Object.entries(request.query ?? {}));
    const path = `${root}/${pathText(key)}`;
    const headers: Record<string, string> = {
      host,
      ...this.#headers[operation],
      ...request.headers,
      ...((method === 'PUT' || method === 'POST') && { 'content-length': String(body?.byteLength ?? 0) }),
      'x-amz-content-sha256': this.#payloadHash(request, server),
    };
    const options = { keys, region: signingRegion, date: this.#clock.now() };
    Object.assign(headers, this.#signer.sign({ method, path, query, headers }, options));
    const target = query === '' ? path : `${path}?${query}`;
    const secrets = [...secretsOf(headers), ...secretsOfQuery(request.query)];
    return this.#transport.send({ ...server, method, path: target, headers, secrets, body }, request);
  }

  /** Documents are always signed. */
  #payloadHash(
    { method, body }: S3Request,
    { protocol, hostname }: Pick<Endpoint, 'protocol' | 'hostname'>,
  ): string {
    if (body === undefined) return EMPTY_SHA256;
    const { payload } = this.#config;
    const isExposed = protocol === 'http:' && !isLoopback(hostname);
    const isSigned = method === 'POST' || payload === 'signed' || (payload === 'auto' && isExposed);
    return isSigned ? sha256Hex(body) : 'UNSIGNED-PAYLOAD';
  }

  #remedyFor(refusal: HttpRefusal): Remedy | undefined {
    if (!(refusal instanceof S3Refusal)) return undefined;
    const { code, status, region } = refusal;
    if (code === 'RequestTimeTooSkewed') return () => this.#clock.adjust(refusal);
    if (code === 'ExpiredToken' || code === 'InvalidToken') return () => this.#credentials.renew();
    if (region === undefined || ![301, 307, 400, 403].includes(status)) return undefined;
    return () => this.#moveTo(region);
  }

  async #moveTo(region: string): Promise<boolean> {
    const { region: before } = await this.#currentPlace();
    if (region === before) return false;
    this.#movedTo = region;
    return true;
  }

  async #currentPlace(): Promise<Place> {
    this.#place ??= placeOf(this.#config);
    const place = await this.#place;
    return this.#movedTo === undefined ? place : { ...place, region: this.#movedTo };
  }

  async #currentEndpoint(): Promise<Endpoint> {
    const place = await this.#currentPlace();
    if (this.#endpoint?.region === place.region) return this.#endpoint.value;
    const value = endpointOf({ ...this.#config, ...place });
    this.#endpoint = { region: place.region, value };
    return value;
  }
}

const EMPTY_SHA256 = sha256Hex('');

async function placeOf({ region, profile, fips, dualStack }: S3Config): Promise<Place> {
  const files = await readAwsFiles();
  const settings = profileSettings(files, profile, 'config');
  const flag = (name: string) => endpointFlag(`${name} of the profile`, settings[name]);
  return {
    // AWS tools prefer this file for the region.
    region: region ?? profileSettings(files, profile, 'credentials')['region'] ?? DEFAULT_REGION,
    fips: fips ?? flag('use_fips_endpoint') ?? false,
    dualStack: dualStack ?? flag('use_dualstack_endpoint') ?? false,
  };
}
