/** The measured adapters, and the clients that each is compared with. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { DialectName } from '../discard/process.ts';

/**
 * `download` verifies every byte and drops it. The other actions use the caller's memory or a file
 * on tmpfs.
 */
export const ACTIONS = ['upload', 'upload of a file', 'download', 'download to memory'] as const;
export type Action = (typeof ACTIONS)[number];

export const CLIENTS = ['holdfast', 'node:http', 'SDK'] as const;
export type Client = (typeof CLIENTS)[number];

export interface Adapter {
  readonly name: DialectName;
  /** The URI of a run on the server at `endpoint`. */
  uri(endpoint: string, run: string): string;
  readonly env: Readonly<Record<string, string>>;
  /** The endpoint in the form that the SDK needs, and the bucket. */
  sdkEndpoint(endpoint: string): string;
  readonly bucket: string;
  /** The path of plain objects. A PUT of one needs `rawHeaders`. */
  readonly rawPath: string;
  readonly rawHeaders: Readonly<Record<string, string>>;
  /** The SDK calls that are measured. */
  readonly sdk: Partial<Readonly<Record<Action, { readonly call: string; readonly costsAtLeast?: number }>>>;
}

/** Maximum cost of Holdfast relative to `node:http` with the same checksum. */
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
    // The mode for the real GCS. For an emulator Holdfast would upload objects and compose them.
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
      // The SDK computes no checksum and reads no file here, so Holdfast can save little.
      upload: { call: 'uploadData' },
      'upload of a file': { call: 'uploadFile', costsAtLeast: 2 },
      'download to memory': { call: 'downloadToBuffer', costsAtLeast: 2 },
    },
  },
];

/** The clients that support this action. */
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

/** The script of this client. */
export function driverOf({ name }: Adapter, client: Client): string {
  const own = client === 'holdfast' ? './holdfast-driver.mjs' : './raw-driver.mjs';
  return fileURLToPath(new URL(client === 'SDK' ? SDK_DRIVERS[name] : own, import.meta.url));
}

/**
 * True if the adapter's SDK is installed. The S3 benchmark installs that of S3. Those of GCS and
 * Azure are dependencies of the tests.
 */
export function isSdkInstalled({ name }: Adapter, modules: string): boolean {
  return name !== 's3' || existsSync(join(modules, 'node_modules', '@aws-sdk', 'lib-storage'));
}
