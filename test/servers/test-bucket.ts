/** A place on a server for one test, and direct access for the test to inspect it. */

export interface TestBucket {
  /**
   * `s3://bucket/prefix?…`, `gs://bucket/prefix?…` or `az://account/container/prefix?…`: an empty
   * place.
   */
  readonly uri: string;
  /** Credentials for it, as environment variables. */
  readonly env: Readonly<Record<string, string>>;
  /** The bucket, or the container on Azure. */
  readonly bucket: string;
  /** The endpoint in the URI. Absent for the provider's service itself. */
  readonly endpoint: string | undefined;
}

export interface TestServer {
  /** An empty place that only this caller uses. */
  newBucket(): Promise<TestBucket>;
}

/** `again`: the server neither created nor rejected it. The caller may try once more. */
export type CreateAnswer = 'created' | 'exists' | 'again';

/**
 * The whole bucket through the provider's SDK, so that tests can compare an adapter's answers with
 * an independent client. Keys are those of the bucket, including the prefix of a URI. Nothing is
 * retried. Errors are the SDK's.
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
  /** Without '/' at either end. */
  readonly prefix: string;
  readonly query: URLSearchParams;
}

/** `undefined` if the URI does not have this form. */
export function partsOfUri(uri: string): UriParts | undefined {
  const match = /^((?:s3|gs):\/\/[^/?#]+|az:\/\/[^/?#]+\/[^/?#]+)(?:\/([^?#]*))?(?:\?([^#]*))?$/.exec(uri);
  if (match?.[1] === undefined) return undefined;
  const [, root, path = '', search] = match;
  const prefix = decodeURIComponent(path).replace(/^\/+|\/+$/g, '');
  const bucket = root.slice(root.lastIndexOf('/') + 1);
  return { root, bucket, prefix, query: new URLSearchParams(search) };
}

/** Parts of the URI of a `TestBucket`. */
export function partsOfBucket({ uri }: TestBucket): UriParts {
  const parts = partsOfUri(uri);
  if (parts === undefined) throw new Error(`${uri} is no URI of a bucket`);
  return parts;
}
