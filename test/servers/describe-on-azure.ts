/** Suites that need a server that speaks Azure Blob Storage. */

import { newAzureContainer, openAzureContainer } from './azure-access.ts';
import {
  AZURITE_TITLE,
  type AzureServer,
  type AzureServerOptions,
  azuriteModule,
  startAzurite,
} from './azure-server.ts';
import { describeOnServer, describeOnUserStore, type OwnServer, trusted, whyNone } from './server-suite.ts';
import type { TestServer } from './test-bucket.ts';
import type { UserCloud } from './user-store.ts';

/** One that runs as long as the suite, which may do to it what it likes. */
export type OwnAzureServer = OwnServer & AzureServer;

export const USER_AZURE: UserCloud = {
  suite: 'azure',
  variable: 'HOLDFAST_TEST_AZURE',
  form: 'az://account/container/prefix, with ?endpoint=… if need be',
  scheme: 'az',
  credentials: /^AZURE_/,
  openBucket: openAzureContainer,
};

const WHY_NO_AZURITE = await whyNone(AZURITE_TITLE, async () => azuriteModule());

/**
 * A `describe` on what `HOLDFAST_TEST_AZURE` names, else on an Azurite that runs as long as the suite. It has been seen to enforce
 * create-if-absent. See `describeOnServer` for where there can be none.
 */
export function describeOnAzure(name: string, body: (server: () => TestServer) => void): void {
  const onUserStore = describeOnUserStore(USER_AZURE, name);
  if (onUserStore === undefined) describeOnAzurite(name, {}, body);
  else onUserStore(body);
}

/** As `describeOnAzure`, for what only a server of one's own lets a test do. */
export function describeOnAzurite(
  name: string,
  options: AzureServerOptions,
  body: (server: () => OwnAzureServer) => void,
): void {
  const open = async () => {
    const server = await startAzurite(options);
    const newBucket = () => newAzureContainer(server);
    return trusted(server, { title: AZURITE_TITLE, newBucket, openBucket: openAzureContainer });
  };
  describeOnServer({ suite: 'azure', name, whyNone: WHY_NO_AZURITE, open }, body);
}
