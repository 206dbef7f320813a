/** The adapters that are measured, and what each is measured beside. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { DialectName } from '../discard/process.ts';

/** `download`: every byte is verified and dropped. The others begin or end in memory of the caller, or in a file on tmpfs. */
export const ACTIONS = ['upload', 'upload of a file', 'download', 'download to memory'] as const;
export type Action = (typeof ACTIONS)[number];

export const CLIENTS = ['holdfast', 'node:http', 'SDK'] as const;
export type Client = (typeof CLIENTS)[number];

export interface Adapter {
  readonly name: DialectName;
  /** Of a run on the server at `endpoint`. */
  uri(endpoint: string, run: string): string;
  readonly env: Readonly<Record<string, string>>;
  /** The endpoint as the SDK wants it, and the bucket. */
  sdkEndpoint(endpoint: string): string;
  readonly bucket: string;
  /** Of plain objects, and what a PUT of one needs. */
  readonly rawPath: string;
  readonly rawHeaders: Readonly<Record<string, string>>;
  /** The calls of the SDK that are measured. */
  readonly sdk: Partial<Readonly<Record<Action, { readonly call: string; readonly costsAtLeast?: number }>>>;
}

/** Holdfast against `node:http` with the same checksum: so much more at most. */
export const RAW_RATIO_MAX = 1.4;

export const ADAPTERS: readonly Adapter[] = [
  {
    name: 's3',
    uri: (endpoint, run) => `s3://bench/${run}?${new URLSearchParams({ endpoint, region: 'us-east-1' })}`,
    env: {
      AWS_ACCESS_KEY_ID: 'any',
      AWS_SECRET_ACCESS_KEY: 'any',
      AWS_REGION: 'us-east-1',
      AWS_EC2_METADATA_DISABLED: 'true',
    },
    sdkEndpoint: (endpoint) => endpoint,
    bucket: 'bench',
    rawPath: '/bench/raw',
    rawHeaders: {},
    sdk: {
      upload: { call: 'Upload of lib-storage' },
      'download to memory': { call: 'GetObject' },
    },
  },
  {
    name: 'gcs',
    // What real GCS gets; an emulator would be sent pieces to compose.
    uri: (endpoint, run) => `gs://bench/${run}?${new URLSearchParams({ endpoint, uploads: 'multipart' })}`,
    env: {},
    sdkEndpoint: (endpoint) => endpoint,
    bucket: 'bench',
    rawPath: '/bench/raw',
    rawHeaders: {},
    sdk: {
      upload: { call: 'file.save', costsAtLeast: 10 },
      'download to memory': { call: 'file.download', costsAtLeast: 2 },
    },
  },
  {
    name: 'azure',
    uri: (endpoint, run) =>
      `az://bench/runs/${run}?${new URLSearchParams({ endpoint: `${endpoint}/bench` })}`,
    env: {
      AZURE_STORAGE_ACCOUNT: 'bench',
      AZURE_STORAGE_KEY: Buffer.alloc(64, 'any').toString('base64'),
    },
    sdkEndpoint: (endpoint) => `${endpoint}/bench`,
    bucket: 'runs',
    rawPath: '/bench/runs/raw',
    rawHeaders: { 'x-ms-blob-type': 'BlockBlob' },
    sdk: {
      // It computes no checksum of its own, and reads no file: little is left to be saved.
      upload: { call: 'uploadData' },
      'upload of a file': { call: 'uploadFile', costsAtLeast: 2 },
      'download to memory': { call: 'downloadToBuffer', costsAtLeast: 2 },
    },
  },
];

/** Which of the clients do this. */
export function clientsOf({ sdk }: Adapter, action: Action): Client[] {
  if (action === 'download') return ['holdfast', 'node:http'];
  const hasSdk = sdk[action] !== undefined;
  if (action === 'upload') return hasSdk ? [...CLIENTS] : ['holdfast', 'node:http'];
  return hasSdk ? ['holdfast', 'SDK'] : [];
}

const SDK_DRIVERS: Readonly<Record<DialectName, string>> = {
  s3: './s3-sdk-driver.mjs',
  gcs: './gcs-sdk-driver.mjs',
  azure: './azure-sdk-driver.mjs',
};

/** The script that is this client. */
export function driverOf({ name }: Adapter, client: Client): string {
  const own = client === 'holdfast' ? './holdfast-driver.mjs' : './raw-driver.mjs';
  return fileURLToPath(new URL(client === 'SDK' ? SDK_DRIVERS[name] : own, import.meta.url));
}

/** S3's is a peer of the other benchmark, installed by it; those of GCS and Azure are dependencies of the tests. */
export function isSdkInstalled({ name }: Adapter, modules: string): boolean {
  return name !== 's3' || existsSync(join(modules, 'node_modules', '@aws-sdk', 'lib-storage'));
}
