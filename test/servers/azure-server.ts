/** Azurite: Microsoft's emulator of Azure Blob Storage. */

import { randomBytes } from 'node:crypto';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { type AzureAccess, azureClient } from './azure-access.ts';
import { ServerUnavailable } from './cached-build.ts';
import { type RunningServer, startServer } from './start-server.ts';

export const AZURITE_TITLE = 'Azurite';

const READY_REQUEST_TIMEOUT_MS = 2_000;

/** A server that this process started, and an account with its key. */
export interface AzureServer extends RunningServer, AzureAccess {}

export interface AzureServerOptions {
  /** Parent of the server's directory. Default: the directory for temporary files. */
  readonly directory?: string | undefined;
}

/** Path of its main module. `ServerUnavailable` if the package is not installed. */
export function azuriteModule(): string {
  try {
    return createRequire(import.meta.url).resolve('azurite/dist/src/blob/main.js');
  } catch (cause) {
    throw new ServerUnavailable(`the package azurite is not installed: ${String(cause)}`);
  }
}

/** Starts Azurite with a new account and no containers. See `startServer` for its errors. */
export async function startAzurite(options: AzureServerOptions = {}): Promise<AzureServer> {
  const module = azuriteModule();
  const account = `holdfast${randomBytes(4).toString('hex')}`;
  const key = randomBytes(64).toString('base64');
  const accessAt = (port: number): AzureAccess => ({
    account,
    key,
    endpoint: `http://127.0.0.1:${port}/${account}`,
  });
  const server = await startServer({
    title: AZURITE_TITLE,
    parentDirectory: options.directory,
    command: ({ port, directory }) => ({
      words: [
        ...[process.execPath, module, '--silent', '--skipApiVersionCheck', '--disableTelemetry'],
        ...['--blobHost', '127.0.0.1', '--blobPort', `${port}`, '--location', join(directory, 'data')],
      ],
      env: { AZURITE_ACCOUNTS: `${account}:${key}` },
    }),
    // The account is random: no other server knows it.
    isReady: async ({ port }) => {
      const client = azureClient(accessAt(port));
      await client.getProperties({ abortSignal: AbortSignal.timeout(READY_REQUEST_TIMEOUT_MS) });
      return true;
    },
  });
  return { ...server, ...accessAt(server.port) };
}
