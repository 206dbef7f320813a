import { isIP } from 'node:net';
import { CheckpointError } from '@holdfast/core/contract';

/** Static credentials; everything else that AWS tools understand is found by the SDK's default chain. */
export interface S3Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
}

export interface S3Config {
  /** For messages: without the settings. */
  readonly uri: string;
  readonly bucket: string;
  /** Empty, or ends in '/'. */
  readonly root: string;
  /** Left out: from the profile, else `us-east-1`, corrected by what the store answers. */
  readonly region?: string | undefined;
  /** Base URL of a server that is not AWS. */
  readonly endpoint?: string | undefined;
  readonly pathStyle: boolean;
  readonly profile?: string | undefined;
  readonly credentials?: S3Credentials | undefined;
  /** Path of a PEM file with certificates to trust beside the usual ones. */
  readonly ca?: string | undefined;
  /** Path of a PEM file with all certificates to trust: `AWS_CA_BUNDLE`. */
  readonly caBundle?: string | undefined;
  readonly encryption?: 'AES256' | 'aws:kms' | 'aws:kms:dsse' | undefined;
  readonly kmsKeyId?: string | undefined;
  readonly bucketKey: boolean;
  /** 32 bytes, in base64: SSE-C. */
  readonly customerKey?: string | undefined;
  readonly storageClass?: string | undefined;
  /** 12 digits. */
  readonly expectedOwner?: string | undefined;
  readonly requestPayer: boolean;
  /**
   * `full`: every part and the whole object by CRC32C, falling back to `parts` where the store refuses it. `parts`: every part only.
   * `none`: the store checks nothing.
   */
  readonly checksum: 'full' | 'parts' | 'none';
  /** `auto`: bodies are signed unless TLS or the loopback protects them. */
  readonly payload: 'auto' | 'signed' | 'unsigned';
  readonly proxy: ProxyEnvironment;
}

/** As `node:http` takes it. */
export type ProxyEnvironment = Readonly<Record<string, string>>;

export type S3Environment = Readonly<Record<string, string | undefined>>;

const FORM = 's3://bucket/prefix, with settings after a "?" if need be';

/** Query keys and what they take, for messages. */
const PARAMETERS = {
  region: 'a region such as eu-west-1',
  endpoint: 'the base URL of a server that is not AWS, http:// or https://',
  pathStyle: 'true or false (default: true with an endpoint)',
  profile: 'a profile of ~/.aws/config',
  ca: 'the absolute path of a PEM file with certificates to trust',
  sse: 'AES256, aws:kms or aws:kms:dsse',
  kmsKeyId: 'id or ARN of a KMS key; needs sse=aws:kms or aws:kms:dsse',
  bucketKey: 'true or false; needs sse=aws:kms',
  storageClass: 'a storage class such as STANDARD_IA, in capitals',
  expectedOwner: 'the 12 digits of the AWS account that owns the bucket',
  requestPayer: 'true or false',
  checksum: 'full, parts or none',
  payload: 'auto, signed or unsigned',
} as const;
type ParameterName = keyof typeof PARAMETERS;
type Parameters = Partial<Record<ParameterName, string>>;

/** Answers at once and reads nothing by itself, so a bucket in it cannot be a checkpoint's store. */
const ARCHIVE_CLASSES = ['GLACIER', 'DEEP_ARCHIVE'];

/**
 * From an `s3:` URI; `env` fills only what the URI leaves open. `InvalidConfig` says what was wrong and what is accepted. Pure: nothing
 * is looked up. The prefix is percent-decoded and otherwise kept as it is, `//` included; one '/' at its end is left out.
 */
export function parseS3Config(uri: string, env: S3Environment = {}): S3Config {
  const match = /^s3:\/\/([^/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?(#.*)?$/is.exec(uri);
  if (match === null) throw invalid(uri, `is not of the form ${FORM}`);
  const [, bucket = '', path = '', query, fragment] = match;
  if (fragment !== undefined) throw invalid(uri, 'has a fragment; write "#" in a prefix as %23');
  assertBucket(uri, bucket);
  const given = parseQuery(uri, query);
  const endpoint = endpointOf(uri, given.endpoint ?? env.AWS_ENDPOINT_URL_S3 ?? env.AWS_ENDPOINT_URL);
  const prefix = decoded(uri, path).replace(/\/$/, '');
  const config: S3Config = {
    uri: `s3://${bucket}${prefix === '' ? '' : `/${prefix}`}`,
    bucket,
    root: prefix === '' ? '' : `${assertPrefix(uri, prefix)}/`,
    region: matching(
      uri,
      'region',
      given.region ?? env.AWS_REGION ?? env.AWS_DEFAULT_REGION,
      /^[a-z0-9-]+$/i,
    ),
    endpoint,
    pathStyle: flag(uri, 'pathStyle', given.pathStyle, endpoint !== undefined),
    profile: given.profile ?? env.AWS_PROFILE,
    credentials: given.profile === undefined ? credentialsOf(env) : undefined,
    ca: matching(uri, 'ca', given.ca, /^([a-z]:)?[/\\]/i),
    caBundle: env.AWS_CA_BUNDLE || undefined,
    ...encryptionOf(uri, given, env, endpoint),
    storageClass: matching(uri, 'storageClass', given.storageClass, /^[A-Z][A-Z_]*$/),
    expectedOwner: matching(uri, 'expectedOwner', given.expectedOwner, /^\d{12}$/),
    requestPayer: flag(uri, 'requestPayer', given.requestPayer, false),
    checksum: choice(uri, 'checksum', given.checksum, ['full', 'parts', 'none']),
    payload: choice(uri, 'payload', given.payload, ['auto', 'signed', 'unsigned']),
    proxy: proxyOf(env),
  };
  if (config.storageClass !== undefined && ARCHIVE_CLASSES.includes(config.storageClass))
    throw invalid(uri, `has storageClass=${config.storageClass}, whose objects cannot be read at once`);
  return config;
}

function assertBucket(uri: string, bucket: string): void {
  if (bucket.endsWith('--x-s3'))
    throw invalid(uri, 'is a directory bucket, whose listings have no order; use a general purpose bucket');
  if (bucket === '') throw invalid(uri, 'names no bucket');
  if (bucket.includes('@'))
    throw invalid(uri, 'has credentials in it; leave them out: they come from the environment or a profile');
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]$/.test(bucket))
    throw invalid(
      uri,
      `has "${bucket}" where a bucket's name is due: 3 to 63 letters, digits, ".", "-" or "_"`,
    );
}

/** Keys of 1,024 bytes must be left room for: the longest name of a record takes some 100. */
function assertPrefix(uri: string, prefix: string): string {
  if (Buffer.byteLength(prefix) > 512) throw invalid(uri, 'has a prefix of more than 512 bytes');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
  if (/[\u0000-\u001f\u007f]/.test(prefix)) throw invalid(uri, 'has a control character in its prefix');
  return prefix;
}

function parseQuery(uri: string, query: string | undefined): Parameters {
  const found: Parameters = {};
  for (const pair of query === undefined ? [] : query.split('&')) {
    const [key = '', ...rest] = pair.split('=');
    const name = decoded(uri, key);
    if (!Object.hasOwn(PARAMETERS, name)) throw invalid(uri, `has the unknown query key "${name}"`);
    if (Object.hasOwn(found, name)) throw invalid(uri, `has the query key "${name}" twice`);
    const value = decoded(uri, rest.join('='));
    if (value === '') throw expected(uri, name as ParameterName, value);
    found[name as ParameterName] = value;
  }
  return found;
}

function endpointOf(uri: string, endpoint: string | undefined): string | undefined {
  if (endpoint === undefined || endpoint === '') return undefined;
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  if (
    url === undefined ||
    !['http:', 'https:'].includes(url.protocol) ||
    url.username !== '' ||
    url.search !== ''
  )
    throw expected(uri, 'endpoint', endpoint.replace(/\/\/[^/@]*@/, '//[redacted]@'));
  return url.href.replace(/\/$/, '');
}

function credentialsOf(env: S3Environment): S3Credentials | undefined {
  const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey } = env;
  if (!accessKeyId || !secretAccessKey) return undefined;
  return { accessKeyId, secretAccessKey, sessionToken: env.AWS_SESSION_TOKEN || undefined };
}

function encryptionOf(
  uri: string,
  given: Parameters,
  env: S3Environment,
  endpoint: string | undefined,
): Pick<S3Config, 'encryption' | 'kmsKeyId' | 'bucketKey' | 'customerKey'> {
  const encryption =
    given.sse === undefined
      ? undefined
      : choice(uri, 'sse', given.sse, ['AES256', 'aws:kms', 'aws:kms:dsse']);
  const isKms = encryption !== undefined && encryption !== 'AES256';
  if (given.kmsKeyId !== undefined && !isKms) throw expected(uri, 'kmsKeyId', given.kmsKeyId);
  if (given.bucketKey !== undefined && !isKms) throw expected(uri, 'bucketKey', given.bucketKey);
  const customerKey = env.HOLDFAST_S3_CUSTOMER_KEY || undefined;
  if (customerKey !== undefined && !/^[A-Za-z0-9+/]{43}=$/.test(customerKey))
    throw new CheckpointError('InvalidConfig', 'HOLDFAST_S3_CUSTOMER_KEY is not the base64 of 32 bytes');
  if (customerKey !== undefined && encryption !== undefined)
    throw invalid(
      uri,
      `has sse=${encryption} although HOLDFAST_S3_CUSTOMER_KEY is set; one of the two encrypts`,
    );
  if (customerKey !== undefined && isInTheClear(endpoint))
    throw invalid(uri, 'would send HOLDFAST_S3_CUSTOMER_KEY in the clear: its endpoint is http://');
  return {
    encryption,
    kmsKeyId: given.kmsKeyId,
    bucketKey: flag(uri, 'bucketKey', given.bucketKey, false),
    customerKey,
  };
}

function isInTheClear(endpoint: string | undefined): boolean {
  if (endpoint === undefined) return false;
  const { protocol, hostname } = new URL(endpoint);
  return protocol === 'http:' && !isLoopback(hostname.replace(/^\[|\]$/g, ''));
}

/** What is sent there never leaves this machine. `hostname` has no brackets. */
export function isLoopback(hostname: string): boolean {
  if (isIP(hostname) === 4) return hostname.startsWith('127.');
  return hostname === '::1' || hostname === 'localhost' || hostname.endsWith('.localhost');
}

/** The variables of a proxy, by the names that `node:http` looks for. */
function proxyOf(env: S3Environment): ProxyEnvironment {
  const found: Record<string, string> = {};
  for (const name of ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY']) {
    const value = env[name.toLowerCase()] ?? env[name];
    if (value) found[name] = value;
  }
  return found;
}

function choice<Value extends string>(
  uri: string,
  name: ParameterName,
  value: string | undefined,
  accepted: readonly [Value, ...Value[]],
): Value {
  const chosen = value === undefined ? accepted[0] : accepted.find((candidate) => candidate === value);
  if (chosen === undefined) throw expected(uri, name, value ?? '');
  return chosen;
}

function flag(uri: string, name: ParameterName, value: string | undefined, otherwise: boolean): boolean {
  return value === undefined ? otherwise : choice(uri, name, value, ['true', 'false']) === 'true';
}

function matching(
  uri: string,
  name: ParameterName,
  value: string | undefined,
  form: RegExp,
): string | undefined {
  if (value === undefined || value === '') return undefined;
  if (!form.test(value)) throw expected(uri, name, value);
  return value;
}

function decoded(uri: string, text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (cause) {
    throw invalid(
      uri,
      'has a "%" that is not followed by two hexadecimal digits of UTF-8; write "%" as %25',
      cause,
    );
  }
}

function expected(uri: string, name: ParameterName, value: string): CheckpointError {
  return invalid(uri, `has ${name}=${value}; ${name} is ${PARAMETERS[name]}`);
}

function invalid(uri: string, what: string, cause?: unknown): CheckpointError {
  const shown = uri.replace(/\/\/[^/@]*@/g, '//[redacted]@');
  const message = `${shown} ${what}; accepted: ${FORM}: ${Object.keys(PARAMETERS).join(', ')}`;
  return new CheckpointError('InvalidConfig', message, { cause });
}
