/** The clients of `bench agent`, and their Pythons. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { testConfig } from '../servers/config.ts';
import { say } from './options.ts';
import { installPython } from './s3/install.ts';
import { PYTHON_PACKAGES, placesIn } from './s3/peers.ts';

export const CLIENTS = ['holdfast', 'obstore', 'boto3', 's3fs'] as const;
export type Client = (typeof CLIENTS)[number];

/** It needs other releases than boto3, so it has an environment of its own. */
const S3FS_PACKAGES = { s3fs: '2026.9.0' };

export function pythonOf(client: Client): string {
  return client === 'holdfast' ? 'python3' : join(homeOf(client), 'bin', 'python');
}

export function isInstalled(client: Client): boolean {
  if (client === 'holdfast' || existsSync(pythonOf(client))) return true;
  say(`${client} is not installed and is left out: npm run bench -- agent --install-peers`);
  return false;
}

/** Needs `python3` with venv. Safe to repeat. */
export function installClients(): void {
  const { obstore, boto3 } = PYTHON_PACKAGES;
  installPython(homeOf('boto3'), { obstore, boto3 });
  installPython(homeOf('s3fs'), S3FS_PACKAGES);
}

function homeOf(client: Client): string {
  const { python } = placesIn(testConfig(process.env).cacheDirectory, false);
  return client === 's3fs' ? `${python}-s3fs` : python;
}
