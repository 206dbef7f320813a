/** What all strategies of uploads share. */

import type { StoreCalls } from '@holdfast/cloud-http';
import type { StoreCapabilities } from '@holdfast/core/contract';
import type { GcsConnection } from './client.ts';
import type { GcsConfig, UploadStrategy } from './config.ts';
import type { GcsObjects } from './objects.ts';

/** State that uploads share with their store. */
export interface UploadHome {
  readonly config: GcsConfig;
  readonly connection: GcsConnection;
  readonly objects: GcsObjects;
  readonly capabilities: StoreCapabilities;
  readonly calls: StoreCalls;
}

/** Encoded as JSON in base64url. */
export interface UploadToken {
  readonly strategy: UploadStrategy;
  readonly key: string;
  readonly uploadId: string;
  readonly partSizeBytes: number;
}

/** The key as the engine knows it, and as it is in the bucket. */
export interface Place {
  readonly key: string;
  readonly path: string;
}
