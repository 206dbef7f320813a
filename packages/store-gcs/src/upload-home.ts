/** What all strategies of uploads share. */

import type { UploadHome, UploadToken } from '@holdfast/cloud-http';
import type { GcsConnection } from './client.ts';
import type { GcsConfig, UploadStrategy } from './config.ts';
import type { GcsObjects } from './objects.ts';

export interface GcsUploadHome extends UploadHome {
  readonly config: GcsConfig;
  readonly connection: GcsConnection;
  readonly objects: GcsObjects;
}

/** Encoded as JSON in base64url. */
export interface Token extends UploadToken {
  readonly strategy: UploadStrategy;
}
