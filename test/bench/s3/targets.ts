/** The server of a series, and requests to it besides the measured runs. */

import { randomBytes } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import {
  CreateBucketCommand,
  DeleteBucketCommand,
  paginateListObjectsV2,
  type S3Client,
} from '@aws-sdk/client-s3';
import { makeCertificates } from '../../servers/certificates.ts';
import { credentialsEnv, deletePrefix, type S3Access, s3Client } from '../../servers/s3-access.ts';
import { startMinio } from '../../servers/s3-servers.ts';
import type { Counts } from '../discard/counter.ts';
import { startDiscardServer } from '../discard/process.ts';
import { cpuMsOf } from './process-cost.ts';

export interface Target {
  readonly name: 'MinIO' | 'endpoint' | 'discarding server';
  readonly access: S3Access;
  /** Created for this series. */
  readonly bucket: string;
  /** CPU time of the server so far. Absent if the server is not our process. */
  readonly cpuMs?: (() => number) | undefined;
  /** Counts since the last call. Absent if the server does not count. */
  readonly counts?: (() => Promise<Counts>) | undefined;
  close(): Promise<void>;
}

export interface TargetOptions {
  /** The data directory of a server that we start. */
  readonly directory: string;
  readonly tls: boolean;
}

/** A clean environment, so that no variable or profile changes a client of the series. */
export function clientEnv({ access }: Target, home: string): Record<string, string> {
  return {
    PATH: process.env['PATH'] ?? '',
    HOME: home,
    ...credentialsEnv(access),
    AWS_REGION: access.region,
    AWS_EC2_METADATA_DISABLED: 'true',
  };
}

async function withBucket(server: Omit<Target, 'bucket'>): Promise<Target> {
  const bucket = `holdfast-bench-${randomBytes(6).toString('hex')}`;
  await withClient(server.access, (client) => client.send(new CreateBucketCommand({ Bucket: bucket })));
  return {
    ...server,
    bucket,
    close: async () => {
      try {
        await withClient(server.access, async (client) => {
          await deletePrefix(client, bucket, '');
          await client.send(new DeleteBucketCommand({ Bucket: bucket }));
        });
      } finally {
        await server.close();
      }
    },
  };
}

async function withClient<T>(access: S3Access, work: (client: S3Client) => Promise<T>): Promise<T> {
  const client = await s3Client(access);
  try {
    return await work(client);
  } finally {
    client.destroy();
  }
}

/** MinIO on this machine, with its data below `directory`. */
export async function minioTarget({ directory, tls }: TargetOptions): Promise<Target> {
  const server = await startMinio({ directory, tls });
  try {
    return await withBucket({
      name: 'MinIO',
      access: server,
      cpuMs: () => cpuMsOf(server.pid),
      close: () => server.stop(),
    });
  } catch (error) {
    await server.stop();
    throw error;
  }
}

/** A server of the user, with credentials, region and CA from the usual variables. */
export async function endpointTarget(endpoint: string, env: NodeJS.ProcessEnv): Promise<Target> {
  const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_CA_BUNDLE } = env;
  if (!AWS_ACCESS_KEY_ID || !AWS_SECRET_ACCESS_KEY)
    throw new Error(
      '--endpoint needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, which every tool understands',
    );
  const access: S3Access = {
    endpoint,
    region: AWS_REGION ?? 'us-east-1',
    accessKeyId: AWS_ACCESS_KEY_ID,
    secretAccessKey: AWS_SECRET_ACCESS_KEY,
    ...(AWS_SESSION_TOKEN && { sessionToken: AWS_SESSION_TOKEN }),
    ...(AWS_CA_BUNDLE && { caPath: AWS_CA_BUNDLE }),
  };
  return withBucket({ name: 'endpoint', access, close: async () => undefined });
}

/** The discarding server, which returns the pattern of `patternPath`. */
export async function discardTarget({ directory, tls }: TargetOptions, patternPath: string): Promise<Target> {
  const certificatesDirectory = join(directory, 'certificates');
  await mkdir(certificatesDirectory, { recursive: true });
  const certificates = tls ? await makeCertificates(certificatesDirectory) : undefined;
  const server = await startDiscardServer('s3', patternPath, certificates);
  const access: S3Access = {
    endpoint: server.endpoint,
    region: 'us-east-1',
    accessKeyId: 'any',
    secretAccessKey: 'any',
    ...(certificates && { caPath: certificates.caPath }),
  };
  const { cpuMs, counts, close } = server;
  return { name: 'discarding server', access, bucket: 'bench', cpuMs, counts, close };
}

/**
 * Throws unless at least this many objects and bytes are below `prefix`. It proves that a
 * successful client has sent data.
 */
export async function assertStored(
  { access, bucket }: Target,
  prefix: string,
  wanted: { objectCount: number; sizeBytes: number },
): Promise<void> {
  let objectCount = 0;
  let sizeBytes = 0;
  await withClient(access, async (client) => {
    for await (const page of paginateListObjectsV2({ client }, { Bucket: bucket, Prefix: prefix })) {
      for (const object of page.Contents ?? []) {
        objectCount++;
        sizeBytes += object.Size ?? 0;
      }
    }
  });
  if (objectCount < wanted.objectCount || sizeBytes < wanted.sizeBytes)
    throw new Error(
      `${prefix} holds ${objectCount} objects of ${sizeBytes} bytes, and ${wanted.objectCount} of ${wanted.sizeBytes} were sent`,
    );
}

export async function removePrefix({ access, bucket }: Target, prefix: string): Promise<void> {
  await withClient(access, (client) => deletePrefix(client, bucket, prefix));
}
