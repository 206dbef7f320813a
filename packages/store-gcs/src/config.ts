import {
  type FromEnvironment,
  isInTheClear,
  Proxies,
  type Secret,
  StoreUri,
  serverOf,
} from '@holdfast/cloud-http';
import { checkStoreInput } from '@holdfast/core/contract';

export interface GcsConfig {
  /** For messages: without the settings. */
  readonly uri: string;
  readonly bucket: string;
  /** Empty, or ends in '/'. */
  readonly root: string;
  /** Base URL of all requests, without a trailing '/'. */
  readonly endpoint: string;
  /** Requests carry a token from the default credentials. */
  readonly auth: boolean;
  /** Source of the tokens, for messages. */
  readonly tokensFrom: string;
  /** How objects that are too large for one `create` are sent. */
  readonly uploads: UploadStrategy;
  /** Project billed for the requests. */
  readonly userProject?: string | undefined;
  readonly storageClass?: string | undefined;
  /** `projects/…/locations/…/keyRings/…/cryptoKeys/…`: CMEK. */
  readonly kmsKey?: string | undefined;
  /** 32 bytes, in base64: CSEK. */
  readonly customerKey?: Secret | undefined;
  /** Path of a PEM file with certificates to trust besides the usual ones. */
  readonly ca?: string | undefined;
  readonly proxies: Proxies;
}

/**
 * `multipart`: multipart uploads of the XML API. `compose`: parts are objects that the store
 * composes. `single`: no object is larger than one request.
 */
export type UploadStrategy = 'multipart' | 'compose' | 'single';

export type GcsEnvironment = Readonly<Record<string, string | undefined>>;

export const GOOGLE = 'https://storage.googleapis.com';

const FORM = 'gs://bucket/prefix, with optional settings after a "?"';

/** Query keys and their accepted values, for messages. */
const SETTINGS = {
  endpoint: 'the base URL of another server, http:// or https://',
  auth: 'true or false (default: false with an endpoint)',
  uploads: 'auto, multipart, compose or single',
  userProject: 'the id of the project that pays for the requests',
  storageClass: 'a storage class such as NEARLINE, in capitals',
  kmsKey: 'a Cloud KMS key: projects/…/locations/…/keyRings/…/cryptoKeys/…',
  ca: 'the absolute path of a PEM file with certificates to trust',
} as const;

type GcsUri = StoreUri<keyof typeof SETTINGS>;

/**
 * Parses a `gs:` URI; `env` fills only what the URI leaves open. `InvalidConfig` says what was
 * wrong and what is accepted. Pure: no requests, no file access. The prefix is percent-decoded and
 * otherwise unchanged, including `//`; one trailing '/' is dropped.
 */
export function parseGcsConfig(text: string, env: GcsEnvironment = {}): GcsConfig {
  checkStoreInput(text, env);
  const uri: GcsUri = new StoreUri(text, { scheme: 'gs', form: FORM, settings: SETTINGS });
  const { authority: bucket } = uri;
  assertBucket(uri, bucket);
  const endpoint = uri.baseUrl('endpoint', emulatorUrl(env));
  const auth = uri.flag('auth', endpoint === undefined);
  if (auth && endpoint !== undefined && isInTheClear(endpoint))
    throw uri.invalid('would send its token unencrypted: its endpoint is http://');
  const prefix = uri.prefix(uri.path);
  const uploads = uri.choice('uploads', ['auto', 'multipart', 'compose', 'single']);
  const proxies = new Proxies(env);
  proxies.to(serverOf(new URL(endpoint ?? GOOGLE))); // Reject an unusable proxy at once.
  const isEmulator = endpoint !== undefined && !auth;
  return {
    uri: `gs://${bucket}${prefix === '' ? '' : `/${prefix}`}`,
    bucket,
    root: prefix === '' ? '' : `${prefix}/`,
    endpoint: endpoint ?? GOOGLE,
    auth,
    tokensFrom: env.GOOGLE_APPLICATION_CREDENTIALS
      ? 'the file of GOOGLE_APPLICATION_CREDENTIALS'
      : 'the login of gcloud or the service account of the machine',
    // Emulators have no multipart uploads of the XML API.
    uploads: uploads === 'auto' ? (isEmulator ? 'compose' : 'multipart') : uploads,
    userProject: uri.matching('userProject', /^[a-z0-9][a-z0-9.:-]*$/),
    storageClass: uri.matching('storageClass', /^[A-Z][A-Z_]*$/),
    ...encryptionOf(uri, env, endpoint),
    ca: uri.absolutePath('ca'),
    proxies,
  };
}

function assertBucket(uri: GcsUri, bucket: string): void {
  if (bucket === '') throw uri.invalid('names no bucket');
  if (!/^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$/.test(bucket)) {
    const due = '3 to 222 lower-case letters, digits, ".", "-" or "_"';
    throw uri.invalid(`has an invalid bucket name; it takes ${due}`);
  }
}

/** Google's own tools also accept `host:port`. */
function emulatorUrl({ STORAGE_EMULATOR_HOST: host }: GcsEnvironment): FromEnvironment | undefined {
  if (!host) return undefined;
  return { variable: 'STORAGE_EMULATOR_HOST', value: /^https?:\/\//.test(host) ? host : `http://${host}` };
}

function encryptionOf(
  uri: GcsUri,
  env: GcsEnvironment,
  endpoint: string | undefined,
): Pick<GcsConfig, 'kmsKey' | 'customerKey'> {
  const kmsKey = uri.matching(
    'kmsKey',
    /^projects\/[^/]+\/locations\/[^/]+\/keyRings\/[^/]+\/cryptoKeys\/[^/]+$/,
  );
  const variable = 'HOLDFAST_GCS_CUSTOMER_KEY';
  const other = kmsKey === undefined ? undefined : 'a kmsKey';
  return { kmsKey, customerKey: uri.customerKey({ variable, value: env[variable] }, { endpoint, other }) };
}
