/** Loads schemes that a user adds: each file exports `stores`, with an adapter for each scheme. */

import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { CheckpointError, isCheckpointError } from '@holdfast/core/contract';
import { registerStore, type StoreAdapter } from '@holdfast/stores';

const ACCEPTED =
  'it exports `stores`, such as { tape: { form: "tape://library", open: async (uri, env) => store } }';

/** Throws `InvalidConfig` for a file that cannot be loaded, or that exports no stores. */
export async function addStores(files: readonly string[]): Promise<void> {
  for (const file of files) {
    for (const [scheme, adapter] of Object.entries(await storesOf(file))) {
      if (!isAdapter(adapter)) throw invalid(file, `its "${scheme}" is no adapter; ${ACCEPTED}`);
      try {
        registerStore(scheme, adapter);
      } catch (error) {
        if (!isCheckpointError(error)) throw error;
        throw invalid(file, error.message, error);
      }
    }
  }
}

async function storesOf(file: string): Promise<object> {
  let loaded: { readonly stores?: unknown };
  try {
    loaded = await import(pathToFileURL(resolve(file)).href);
  } catch (error) {
    throw invalid(
      file,
      `it cannot be loaded: ${error instanceof Error ? error.message : String(error)}`,
      error,
    );
  }
  const { stores } = loaded;
  if (typeof stores === 'object' && stores !== null && Object.keys(stores).length > 0) return stores;
  throw invalid(file, `it adds no store; ${ACCEPTED}`);
}

function isAdapter(value: unknown): value is StoreAdapter {
  const { form, open } = Object(value) as Partial<StoreAdapter>;
  return typeof form === 'string' && typeof open === 'function';
}

function invalid(file: string, what: string, cause?: unknown): CheckpointError {
  return new CheckpointError('InvalidConfig', `the store module ${file}: ${what}`, { cause });
}
