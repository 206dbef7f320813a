import { crc32c } from '@holdfast/core';
import { CheckpointError, type ObjectStore } from '@holdfast/core/contract';
import { processEnvironment, type StoreEnvironment } from './env.ts';
import { schemeOf } from './uri.ts';

interface Adapter {
  /** How its URIs look, for messages. */
  readonly form: string;
  readonly open: (uri: string, env: StoreEnvironment) => Promise<ObjectStore>;
}

// One entry per scheme. An adapter is imported when its scheme is used, so its SDK is loaded only by those who need it.
const ADAPTERS: Readonly<Record<string, Adapter>> = {
  file: {
    form: 'file:///abs/dir',
    open: async (uri) => (await import('@holdfast/store-local')).openLocalStore(uri, { crc32c }),
  },
  s3: {
    form: 's3://bucket/prefix',
    open: async (uri, env) => (await import('@holdfast/store-s3')).openS3Store(uri, env),
  },
  gs: {
    form: 'gs://bucket/prefix',
    open: async (uri, env) => (await import('@holdfast/store-gcs')).openGcsStore(uri, env),
  },
  az: {
    form: 'az://account/container/prefix',
    open: async (uri, env) => (await import('@holdfast/store-azure')).openAzureStore(uri, env),
  },
  memory: {
    form: 'memory://name',
    open: async (uri) => (await import('./open-memory-store.ts')).openMemoryStore(uri),
  },
};

/** The accepted forms of URI, one per scheme. */
export function storeUriForms(): string[] {
  return Object.values(ADAPTERS).map((adapter) => adapter.form);
}

/**
 * Opens the store of a URI. Nothing is written, and no run need be there.
 * `InvalidConfig`: an unknown scheme, a plain path, or a part of the URI that its adapter does not know. The message repeats nothing of the
 * URI: what is not understood may hold a secret. A URI that is accepted holds none, and may be shown.
 * `env` fills what the URI leaves open, as `docs/stores` says for each; libraries that find credentials read `process.env` alone.
 */
export async function openStore(
  uri: string,
  env: StoreEnvironment = processEnvironment(),
): Promise<ObjectStore> {
  const scheme = schemeOf(uri);
  const adapter = Object.hasOwn(ADAPTERS, scheme) ? ADAPTERS[scheme] : undefined;
  if (adapter === undefined) {
    const forms = storeUriForms().join(', ');
    throw new CheckpointError('InvalidConfig', `the scheme of the URI is unknown; accepted: ${forms}`);
  }
  return adapter.open(uri, env);
}
