/**
 * Servers that speak S3: MinIO, which fulfils the contract of S3, and versitygw, whose
 * create-if-absent is not atomic.
 */

import { randomBytes } from 'node:crypto';
import { mkdir, readFile } from 'node:fs/promises';
import http from 'node:http';
import https from 'node:https';
import { join } from 'node:path';
import { ListBucketsCommand } from '@aws-sdk/client-s3';
import { makeCertificates } from './certificates.ts';
import { goProgram, MINIO, VERSITYGW } from './go-program.ts';
import { type S3Access, s3Client } from './s3-access.ts';
import { type RunningServer, startServer } from './start-server.ts';

const REGION = 'us-east-1';
const READY_REQUEST_TIMEOUT_MS = 2_000;

/** A server that this process started, with its root credentials. */
export interface S3Server extends RunningServer, S3Access {}

export interface ServerOptions {
  /** Parent of the server's directory. Default: the directory for temporary files. */
  readonly directory?: string | undefined;
  /** Additional environment variables for the server. */
  readonly env?: Readonly<Record<string, string>> | undefined;
}

export interface MinioOptions extends ServerOptions {
  /** Serves https with a new certificate. Clients have to trust `caPath`. */
  readonly tls?: boolean | undefined;
}

interface Place {
  readonly port: number;
  readonly directory: string;
}

/**
 * Starts MinIO with new credentials and no buckets, and builds it first if needed. See
 * `startServer` for its errors.
 */
export async function startMinio(options: MinioOptions = {}): Promise<S3Server> {
  const binary = await goProgram(MINIO);
  const root = rootCredentials();
  const accessAt = ({ port, directory }: Place): S3Access => ({
    ...root,
    region: REGION,
    endpoint: `${options.tls ? 'https' : 'http'}://127.0.0.1:${port}`,
    ...(options.tls && { caPath: join(certificatesIn(directory), 'ca.crt') }),
  });
  const server = await startServer({
    title: MINIO.title,
    parentDirectory: options.directory,
    prepare: async (directory) => {
      if (options.tls) await makeCertificates(certificatesIn(directory));
    },
    command: ({ port, directory }) => ({
      // Without --certs-dir, MinIO would take certificates from the user's home.
      words: [
        binary,
        'server',
        '--address',
        `127.0.0.1:${port}`,
        '--certs-dir',
        certificatesIn(directory),
        dataIn(directory),
      ],
      env: {
        MINIO_ROOT_USER: root.accessKeyId,
        MINIO_ROOT_PASSWORD: root.secretAccessKey,
        MINIO_CI_CD: '1',
        MINIO_BROWSER: 'off',
        MINIO_UPDATE: 'off',
        MINIO_SCANNER_SPEED: 'slowest',
        ...options.env,
      },
    }),
    isReady: async (place) => {
      const access = accessAt(place);
      return (
        (await isHealthy(`${access.endpoint}/minio/health/ready`, access.caPath)) && (await knowsUs(access))
      );
    },
  });
  return { ...server, ...accessAt(server) };
}

/**
 * Starts versitygw on a directory, with new credentials and no buckets, and builds it first if
 * needed.
 */
export async function startVersitygw(options: ServerOptions = {}): Promise<S3Server> {
  const binary = await goProgram(VERSITYGW);
  const root = rootCredentials();
  const accessAt = ({ port }: Place): S3Access => ({
    ...root,
    region: REGION,
    endpoint: `http://127.0.0.1:${port}`,
  });
  const server = await startServer({
    title: VERSITYGW.title,
    parentDirectory: options.directory,
    prepare: async (directory) => {
      await mkdir(dataIn(directory));
      await mkdir(metadataIn(directory));
    },
    command: ({ port, directory }) => ({
      words: [
        binary,
        '--port',
        `127.0.0.1:${port}`,
        '--region',
        REGION,
        '--keep-alive',
        'posix',
        // Not every file system has extended attributes.
        '--sidecar',
        metadataIn(directory),
        dataIn(directory),
      ],
      env: {
        ROOT_ACCESS_KEY_ID: root.accessKeyId,
        ROOT_SECRET_ACCESS_KEY: root.secretAccessKey,
        ...options.env,
      },
    }),
    isReady: (place) => knowsUs(accessAt(place)),
  });
  return { ...server, ...accessAt(server) };
}

function rootCredentials(): { accessKeyId: string; secretAccessKey: string } {
  return { accessKeyId: randomBytes(8).toString('hex'), secretAccessKey: randomBytes(16).toString('hex') };
}

function certificatesIn(directory: string): string {
  return join(directory, 'certs');
}

function dataIn(directory: string): string {
  return join(directory, 'data');
}

function metadataIn(directory: string): string {
  return join(directory, 'metadata');
}

async function isHealthy(url: string, caPath: string | undefined): Promise<boolean> {
  const ca = caPath === undefined ? undefined : await readFile(caPath);
  const get = ca === undefined ? http.get : https.get;
  return new Promise((resolve, reject) => {
    const request = get(url, { ca, agent: false, timeout: READY_REQUEST_TIMEOUT_MS }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    request.on('timeout', () => request.destroy(new Error(`${url} does not answer`)));
    request.on('error', reject);
  });
}

/** True if the server accepts these credentials. They are random, so no other server does. */
async function knowsUs(access: S3Access): Promise<boolean> {
  const client = await s3Client(access, access, READY_REQUEST_TIMEOUT_MS);
  try {
    await client.send(new ListBucketsCommand({}));
    return true;
  } finally {
    client.destroy();
  }
}
