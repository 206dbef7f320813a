import { crc32c } from '@holdfast/core';
import {
  anyText,
  CheckpointError,
  callback,
  checkOptions,
  checkStoreInput,
  type ObjectStore,
  text,
} from '@holdfast/core/contract';
import { processEnvironment, type StoreEnvironment } from './env.ts';
import { schemeOf } from './uri.ts';

/** Opens the stores of one scheme. */
export interface StoreAdapter {
  /** Form of its URIs, for messages: `tape://library/name`. */
  readonly form: string;
  /**
   * Opens a store. Throws `InvalidConfig` for an invalid URI, and repeats nothing of it: it may
   * hold a secret. `env` fills what the URI leaves open.
   */
  readonly open: (uri: string, env: StoreEnvironment) => Promise<ObjectStore>;
}

// One entry per scheme. An adapter is imported when its scheme is used, so its SDK is loaded only
// when it is needed.
const BUILT_IN: Readonly<Record<string, StoreAdapter>> = {
  file: {
    form: 'file:///abs/dir',
    open: async (uri) => (await import('@holdfast/store-local')).openLocalStore(uri, { crc32c }),
  },
  s3: {
    form: 's3://bucket/prefix',
    open: async (uri, env) => {
      const adapter = await import('@holdfast/store-s3').catch(missing('s3', '@holdfast/store-s3'));
      return adapter.openS3Store(uri, env);
    },
  },
  gs: {
    form: 'gs://bucket/prefix',
    open: async (uri, env) => {
      const adapter = await import('@holdfast/store-gcs').catch(missing('gs', '@holdfast/store-gcs'));
      return adapter.openGcsStore(uri, env);
    },
  },
  az: {
    form: 'az://account/container/prefix',
    open: async (uri, env) => {
      const adapter = await import('@holdfast/store-azure').catch(missing('az', '@holdfast/store-azure'));
      return adapter.openAzureStore(uri, env);
    },
  },
  memory: {
    form: 'memory://name',
    open: async (uri) => (await import('./open-memory-store.ts')).openMemoryStore(uri),
  },
};

/** By scheme, in the order in which messages list them. */
const adapters = new Map(Object.entries(BUILT_IN));

/**
 * Explains why the import of an optional package failed. The package may not be installed, because
 * most users of a directory need no SDK of a cloud.
 */
function missing(scheme: string, name: string): (error: unknown) => never {
  return (error) => {
    if ((error as { code?: unknown }).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new CheckpointError(
      'Unsupported',
      `URIs of ${scheme}:// need the package ${name} and its dependencies; install them with: npm install ${name}`,
      { cause: error },
    );
  };
}

/**
 * Adds a scheme for this process: from now on `openStore` and `openCheckpointManager` accept its
 * URIs. The same adapter may be registered again. `InvalidArgument`: the scheme is invalid or
 * taken, or the form is of another scheme.
 */
export function registerStore(scheme: string, adapter: StoreAdapter): void {
  anyText('the scheme', scheme);
  checkOptions(adapter, { form: text, open: callback }, 'the adapter');
  if (!/^[a-z][a-z0-9+.-]*$/.test(scheme)) {
    throw new CheckpointError(
      'InvalidArgument',
      'a scheme begins with a lower-case letter; lower-case letters, digits, "+", "." and "-" follow',
    );
  }
  if (!adapter.form.startsWith(`${scheme}://`)) {
    throw new CheckpointError('InvalidArgument', `the form of ${scheme} URIs must begin with ${scheme}://`);
  }
  const known = adapters.get(scheme);
  if (known !== undefined && known !== adapter)
    throw new CheckpointError('InvalidArgument', `the scheme ${scheme} is taken: ${known.form}`);
  adapters.set(scheme, adapter);
}

/** The accepted forms of URI, one per scheme. */
export function storeUriForms(): string[] {
  return Array.from(adapters.values(), (adapter) => adapter.form);
}

/**
 * Opens the store of a URI. Writes nothing. The run need not exist. Errors:
 * - `Unsupported`: the adapter's package is not installed.
 * - `InvalidConfig`: an unknown scheme, a plain path, or a part of the URI that its adapter does
 *   not know. The message repeats nothing of the URI, which may hold a secret.
 *
 * An accepted URI holds no secret and may be shown. `env` fills what the URI leaves open, as
 * `docs/stores` describes for each store. Libraries that find credentials read only `process.env`.
 */
export async function openStore(
  uri: string,
  env: StoreEnvironment = processEnvironment(),
): Promise<ObjectStore> {
  checkStoreInput(uri, env);
  const adapter = adapters.get(schemeOf(uri));
  if (adapter === undefined) {
    const forms = storeUriForms().join(', ');
    throw new CheckpointError('InvalidConfig', `the scheme of the URI is unknown; accepted: ${forms}`);
  }
  return adapter.open(uri, env);
}
