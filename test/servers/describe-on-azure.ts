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

/** A server that the suite starts and stops. Tests may do anything to it. */
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
 * A `describe` on the store that `HOLDFAST_TEST_AZURE` names, or else on an Azurite that runs as
 * long as the suite. A probe has checked create-if-absent there. `describeOnServer` says what
 * happens if no server is available.
 */
export function describeOnAzure(name: string, body: (server: () => TestServer) => void): void {
  const onUserStore = describeOnUserStore(USER_AZURE, name);
  if (onUserStore === undefined) describeOnAzurite(name, {}, body);
  else onUserStore(body);
}

/** Like `describeOnAzure`, always on a server that the suite starts. */
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
