/**
 * A server that answers as a test says. It covers replies that no S3 server can be made to give. It
 * checks the signature of every request.
 */

import type { ObjectStore } from '@holdfast/core/contract';
import { openS3Store } from '@holdfast/store-s3';
import { onTestFinished } from 'vitest';
import {
  type Answer,
  type Script,
  type SeenRequest as SeenByServer,
  type ServerOptions,
  scriptedServer,
} from '../scripted/scripted-server.ts';
import { signatureFault } from './signature-fault.ts';

export interface SeenRequest extends SeenByServer {
  /** The fault of the request's signature, if any. */
  readonly signatureFault: string | undefined;
}

export interface ScriptedS3 {
  readonly endpoint: string;
  readonly port: number;
  readonly requests: readonly SeenRequest[];
  readonly connections: number;
  readonly openConnections: number;
  /** URI of a bucket on this server, with these `settings`. */
  uri(settings?: Readonly<Record<string, string>>): string;
  /** Opens a store on it, which is closed when the test ends. */
  open(
    settings?: Readonly<Record<string, string>>,
    env?: Readonly<Record<string, string>>,
  ): Promise<ObjectStore>;
}

export const KEYS = {
  AWS_ACCESS_KEY_ID: 'AKIDSCRIPTED',
  AWS_SECRET_ACCESS_KEY: 'secret-of-the-scripted-server',
  AWS_EC2_METADATA_DISABLED: 'true',
} as const;

/** An error as S3 sends it. `extra`: additional elements and headers. */
export function refusal(
  status: number,
  code: string,
  extra: { xml?: string; headers?: Readonly<Record<string, string>>; message?: string } = {},
): Answer {
  const { xml = '', headers = {}, message = `told ${code}` } = extra;
  return {
    status,
    headers: { 'content-type': 'application/xml', 'x-amz-request-id': 'REQ1', ...headers },
    body: `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>${message}</Message>${xml}</Error>`,
  };
}

export const CREATED: Answer = { status: 200, headers: { etag: '"e1"' } };

/** An object as GET and HEAD return it. HEAD omits the body automatically. */
export function object(body: string | Uint8Array, headers: Readonly<Record<string, string>> = {}): Answer {
  return {
    status: 200,
    headers: {
      etag: '"e1"',
      'last-modified': 'Sat, 21 Nov 2026 10:00:00 GMT',
      ...headers,
    },
    body,
  };
}

/** An empty page of a listing, or one with these keys. */
export function listing(...keys: readonly string[]): Answer {
  const entries = keys.map(
    (key) =>
      `<Contents><Key>${key}</Key><LastModified>2026-11-21T10:00:00.000Z</LastModified><ETag>&quot;e&quot;</ETag><Size>3</Size></Contents>`,
  );
  const body = `<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult><Name>runs</Name><KeyCount>${keys.length}</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>${entries.join('')}</ListBucketResult>`;
  return { status: 200, headers: { 'content-type': 'application/xml' }, body };
}

/** Answers to the requests of a successful upload in parts. */
export const uploadGoesWell: Script = ({ method, query }) => {
  if (method === 'POST' && query.has('uploads'))
    return {
      body: '<InitiateMultipartUploadResult><UploadId>UPLOAD-1</UploadId></InitiateMultipartUploadResult>',
    };
  if (method === 'PUT') return { headers: { etag: `"part-${query.get('partNumber')}"` } };
  if (method === 'GET')
    return { body: '<ListPartsResult><IsTruncated>false</IsTruncated></ListPartsResult>' };
  if (method === 'DELETE') return { status: 204 };
  return { body: '<CompleteMultipartUploadResult><ETag>"whole"</ETag></CompleteMultipartUploadResult>' };
};

/** The secret of an access key id. */
export type SecretOf = (accessKeyId: string) => string;

const secretOfKeys: SecretOf = (accessKeyId) =>
  accessKeyId === KEYS.AWS_ACCESS_KEY_ID ? KEYS.AWS_SECRET_ACCESS_KEY : `secret-of-${accessKeyId}`;

export interface ScriptedOptions extends ServerOptions {
  readonly secretOf?: SecretOf;
}

/** Starts a server for this test. It answers a wrong signature as S3 does. */
export async function scriptedS3(script: Script, options: ScriptedOptions = {}): Promise<ScriptedS3> {
  const { secretOf = secretOfKeys, tls } = options;
  const requests: SeenRequest[] = [];
  const server = await scriptedServer(
    (request, index) => {
      const fault = signatureFault(request, secretOf);
      const seen = { ...request, signatureFault: fault };
      requests.push(seen);
      if (fault !== undefined) return refusal(403, 'SignatureDoesNotMatch', { message: fault });
      return script(seen, index);
    },
    { tls },
  );
  const { endpoint, port } = server;
  const uri = (settings: Readonly<Record<string, string>> = {}) =>
    `s3://runs/gpt?${new URLSearchParams({ endpoint, region: 'us-east-1', ...settings })}`;
  return {
    endpoint,
    port,
    requests,
    get connections() {
      return server.connections;
    },
    get openConnections() {
      return server.openConnections;
    },
    uri,
    async open(settings, env = {}) {
      const store = await openS3Store(uri(settings), { ...KEYS, ...env });
      onTestFinished(() => store.close());
      return store;
    },
  };
}
