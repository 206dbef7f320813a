import { firstOf, Proxies, Secret, StoreUri, serverOf } from '@holdfast/cloud-http';
import { checkStoreInput } from '@holdfast/core/contract';
import { endpointFlag } from './endpoint.ts';

/**
 * Source of credentials that the environment names if it has no keys. `any`: it names none, so all
 * places are searched.
 */
export type S3CredentialsKind = 'web-identity' | 'container' | 'any';

/** Static credentials. Files and the SDK give all others that AWS tools understand. */
export interface S3Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: Secret;
  readonly sessionToken?: Secret | undefined;
}

export interface S3Config {
  /** For messages: without the settings. */
  readonly uri: string;
  readonly bucket: string;
  /** Empty, or ends in '/'. */
  readonly root: string;
  /** If omitted: from the profile, else `us-east-1`, corrected by the store's answers. */
  readonly region?: string | undefined;
  /** Base URL of a server that is not AWS. */
  readonly endpoint?: string | undefined;
  readonly pathStyle: boolean;
  /** `AWS_USE_FIPS_ENDPOINT`; if omitted: from the profile, else false. */
  readonly fips?: boolean | undefined;
  /** `AWS_USE_DUALSTACK_ENDPOINT`; if omitted: from the profile, else false. */
  readonly dualStack?: boolean | undefined;
  readonly profile?: string | undefined;
  readonly credentials?: S3Credentials | undefined;
  /** Places searched for credentials without `credentials` and `profile`: for messages. */
  readonly credentialsKind: S3CredentialsKind;
  /** Path of a PEM file with certificates to trust besides the usual ones. */
  readonly ca?: string | undefined;
  /** Path of a PEM file with all certificates to trust: `AWS_CA_BUNDLE`. */
  readonly caBundle?: string | undefined;
  readonly encryption?: 'AES256' | 'aws:kms' | 'aws:kms:dsse' | undefined;
  readonly kmsKeyId?: string | undefined;
  readonly bucketKey: boolean;
  /** 32 bytes, in base64: SSE-C. */
  readonly customerKey?: Secret | undefined;
  readonly storageClass?: string | undefined;
  /** 12 digits. */
  readonly expectedOwner?: string | undefined;
  readonly requestPayer: boolean;
  /**
   * `full`: CRC32C of every part and of the whole object; falls back to `parts` if the store
   * rejects it. `parts`: of every part only. `none`: the store checks nothing.
   */
  readonly checksum: 'full' | 'parts' | 'none';
  /** `auto`: bodies are signed unless TLS or the loopback protects them. */
  readonly payload: 'auto' | 'signed' | 'unsigned';
  readonly proxies: Proxies;
}

export type S3Environment = Readonly<Record<string, string | undefined>>;

const FORM = 's3://bucket/prefix, with optional settings after a "?"';

/** Query keys and their accepted values, for messages. */
const SETTINGS = {
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

type S3Uri = StoreUri<keyof typeof SETTINGS>;

/** Objects of these classes cannot be read at once, so they cannot hold checkpoints. */
const ARCHIVE_CLASSES = ['GLACIER', 'DEEP_ARCHIVE'];

/**
 * Parses an `s3:` URI; `env` fills only what the URI leaves open. `InvalidConfig` says what was
 * wrong and what is accepted. Pure: no requests, no file access. The prefix is percent-decoded and
 * otherwise unchanged, including `//`; one trailing '/' is dropped.
 */
export function parseS3Config(text: string, env: S3Environment = {}): S3Config {
  checkStoreInput(text, env);
  const uri: S3Uri = new StoreUri(text, { scheme: 's3', form: FORM, settings: SETTINGS });
  const { authority: bucket, given } = uri;
  assertBucket(uri, bucket);
  const endpoint = uri.baseUrl('endpoint', firstOf(env, 'AWS_ENDPOINT_URL_S3', 'AWS_ENDPOINT_URL'));
  const prefix = uri.prefix(uri.path);
  const config: S3Config = {
    uri: `s3://${bucket}${prefix === '' ? '' : `/${prefix}`}`,
    bucket,
    root: prefix === '' ? '' : `${prefix}/`,
    region: uri.matching('region', /^[a-z0-9-]+$/i, firstOf(env, 'AWS_REGION', 'AWS_DEFAULT_REGION')),
    endpoint,
    pathStyle: uri.flag('pathStyle', endpoint !== undefined),
    fips: endpointFlag('AWS_USE_FIPS_ENDPOINT', env.AWS_USE_FIPS_ENDPOINT),
    dualStack: endpointFlag('AWS_USE_DUALSTACK_ENDPOINT', env.AWS_USE_DUALSTACK_ENDPOINT),
    profile: given.profile ?? (env.AWS_PROFILE || undefined),
    credentials: given.profile === undefined ? credentialsOf(env) : undefined,
    credentialsKind: kindOf(env),
    ca: uri.absolutePath('ca'),
    caBundle: env.AWS_CA_BUNDLE || undefined,
    ...encryptionOf(uri, env, endpoint),
    storageClass: uri.matching('storageClass', /^[A-Z][A-Z_]*$/),
    expectedOwner: uri.matching('expectedOwner', /^\d{12}$/),
    requestPayer: uri.flag('requestPayer', false),
    checksum: uri.choice('checksum', ['full', 'parts', 'none']),
    payload: uri.choice('payload', ['auto', 'signed', 'unsigned']),
    proxies: new Proxies(env),
  };
  if (config.storageClass !== undefined && ARCHIVE_CLASSES.includes(config.storageClass))
    throw uri.invalid(`has storageClass=${config.storageClass}, whose objects cannot be read at once`);
  // Reject an unusable proxy at once.
  if (endpoint !== undefined) config.proxies.to(serverOf(new URL(endpoint)));
  return config;
}

function assertBucket(uri: S3Uri, bucket: string): void {
  if (/--xa?-s3$/.test(bucket))
    throw uri.invalid('is a directory bucket, whose listings have no order; use a general purpose bucket');
  if (bucket === '') throw uri.invalid('names no bucket');
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]$/.test(bucket))
    throw uri.invalid(`has an invalid bucket name; it takes 3 to 63 letters, digits, ".", "-" or "_"`);
}

function kindOf(env: S3Environment): S3CredentialsKind {
  if (env.AWS_WEB_IDENTITY_TOKEN_FILE) return 'web-identity';
  return env.AWS_CONTAINER_CREDENTIALS_FULL_URI || env.AWS_CONTAINER_CREDENTIALS_RELATIVE_URI
    ? 'container'
    : 'any';
}

function credentialsOf(env: S3Environment): S3Credentials | undefined {
  const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey } = env;
  if (!accessKeyId || !secretAccessKey) return undefined;
  const sessionToken = env.AWS_SESSION_TOKEN ? new Secret(env.AWS_SESSION_TOKEN) : undefined;
  return { accessKeyId, secretAccessKey: new Secret(secretAccessKey), sessionToken };
}

function encryptionOf(
  uri: S3Uri,
  env: S3Environment,
  endpoint: string | undefined,
): Pick<S3Config, 'encryption' | 'kmsKeyId' | 'bucketKey' | 'customerKey'> {
  const { given } = uri;
  const encryption = uri.optionalChoice('sse', ['AES256', 'aws:kms', 'aws:kms:dsse']);
  const isKms = encryption !== undefined && encryption !== 'AES256';
  if (given.kmsKeyId !== undefined && !isKms) throw uri.expected('kmsKeyId');
  if (given.bucketKey !== undefined && !isKms) throw uri.expected('bucketKey');
  return {
    encryption,
    kmsKeyId: given.kmsKeyId,
    bucketKey: uri.flag('bucketKey', false),
    customerKey: uri.customerKey(
      { variable: 'HOLDFAST_S3_CUSTOMER_KEY', value: env.HOLDFAST_S3_CUSTOMER_KEY },
      { endpoint, other: encryption === undefined ? undefined : `sse=${encryption}` },
    ),
  };
}
