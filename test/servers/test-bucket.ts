/** A place on a server for one test, and the eyes with which a test looks into it. */

export interface TestBucket {
  /** `s3://bucket/prefix?…`, `gs://bucket/prefix?…` or `az://account/container/prefix?…`: a place where nothing is. */
  readonly uri: string;
  /** Credentials for it, as environment variables. */
  readonly env: Readonly<Record<string, string>>;
  /** The bucket; on Azure the container. */
  readonly bucket: string;
  /** As in the URI. Absent on the provider's own service. */
  readonly endpoint: string | undefined;
}

export interface TestServer {
  /** A place where nothing is, of this caller alone. */
  newBucket(): Promise<TestBucket>;
}

/** `again`: it was neither created nor refused, and may be tried once more. */
export type CreateAnswer = 'created' | 'exists' | 'again';

/**
 * The whole bucket through the provider's own SDK, so that what an adapter says is held against somebody else's word. Keys are those of
 * the bucket, the prefix of a URI included. Nothing is repeated; errors are the SDK's.
 */
export interface BucketView {
  /** Create-if-absent. */
  create(key: string, bytes: Uint8Array): Promise<CreateAnswer>;
  /** All keys that begin with `prefix`, ascending. */
  list(prefix: string): Promise<string[]>;
  read(key: string): Promise<Uint8Array>;
  /** Deletes every object whose key begins with `prefix`. */
  deletePrefix(prefix: string): Promise<void>;
  close(): void;
}

export interface UriParts {
  /** `s3://bucket`, `gs://bucket`, `az://account/container`. */
  readonly root: string;
  readonly bucket: string;
  /** Without '/' at its ends. */
  readonly prefix: string;
  readonly query: URLSearchParams;
}

/** Nothing if it is not a URI of this form. */
export function partsOfUri(uri: string): UriParts | undefined {
  const match = /^((?:s3|gs):\/\/[^/?#]+|az:\/\/[^/?#]+\/[^/?#]+)(?:\/([^?#]*))?(?:\?([^#]*))?$/.exec(uri);
  if (match?.[1] === undefined) return undefined;
  const [, root, path = '', search] = match;
  const prefix = decodeURIComponent(path).replace(/^\/+|\/+$/g, '');
  const bucket = root.slice(root.lastIndexOf('/') + 1);
  return { root, bucket, prefix, query: new URLSearchParams(search) };
}

/** Of the URI of a `TestBucket`. */
export function partsOfBucket({ uri }: TestBucket): UriParts {
  const parts = partsOfUri(uri);
  if (parts === undefined) throw new Error(`${uri} is no URI of a bucket`);
  return parts;
}
