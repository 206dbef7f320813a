import { Secret } from '@holdfast/cloud-http';
import { CheckpointError } from '@holdfast/core/contract';
import type { AzureIdentity } from './identity-config.ts';

/**
 * `key`: of the account, in base64. `sas`: a query without '?'. `identity`: tokens of Microsoft
 * Entra ID.
 */
export type AzureCredentials =
  | { readonly kind: 'key'; readonly key: Secret }
  | { readonly kind: 'sas'; readonly token: Secret }
  | { readonly kind: 'identity'; readonly identity: AzureIdentity };

export interface ConnectionString {
  /** Endpoint for blobs; undefined if it is the account's usual one. */
  readonly endpoint: string | undefined;
  readonly credentials: AzureCredentials;
}

export const CONNECTION_STRING = 'AZURE_STORAGE_CONNECTION_STRING';

/**
 * What Azure's tools substitute for `UseDevelopmentStorage=true`: account and key of the emulator
 * are public.
 */
const EMULATOR: Readonly<Record<string, string>> = {
  AccountName: 'devstoreaccount1',
  AccountKey: 'Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==',
  BlobEndpoint: 'http://127.0.0.1:10000/devstoreaccount1',
};

/**
 * Parses `Name=Value;…`, as the portal shows it. The `InvalidConfig` error repeats none of it: it
 * contains secrets. `undefined` in, `undefined` out.
 */
export function parseConnectionString(
  text: string | undefined,
  account: string,
): ConnectionString | undefined {
  if (text === undefined) return undefined;
  const given = fieldsOf(text);
  const fields = given['UseDevelopmentStorage'] === 'true' ? { ...EMULATOR, ...given } : given;
  const { AccountName: name, AccountKey: key, SharedAccessSignature: sas } = fields;
  if (name !== undefined && name !== account) throw invalid('is for another account than the URI names');
  const endpoint = fields['BlobEndpoint'] ?? usualEndpoint(fields, account);
  if (key) return { endpoint, credentials: { kind: 'key', key: accountKey(key, CONNECTION_STRING) } };
  if (sas)
    return { endpoint, credentials: { kind: 'sas', token: sharedAccessSignature(sas, CONNECTION_STRING) } };
  throw invalid('has neither an AccountKey nor a SharedAccessSignature');
}

/** Throws `InvalidConfig` if it is not an account key. `from`: the variable that holds it. */
export function accountKey(text: string, from: string): Secret {
  const isKey = text.length % 4 === 0 && /^[A-Za-z0-9+/]{16,}={0,2}$/.test(text);
  if (isKey) return new Secret(text);
  throw new CheckpointError('InvalidConfig', `the key of the account in ${from} is not base64`);
}

/** Removes the '?' that some tools put before it. */
export function sharedAccessSignature(text: string, from: string): Secret {
  const token = text.trim().replace(/^\?/, '');
  // It becomes part of the request path, so it must be escaped already.
  if (/(^|&)sig=[^&]/.test(token) && /^[\x21-\x7e]+$/.test(token) && !token.includes('#'))
    return new Secret(token);
  const what = `the SAS in ${from} is invalid: it must be a query such as sv=…&sp=…&sig=…, with its values escaped`;
  throw new CheckpointError('InvalidConfig', what);
}

function fieldsOf(text: string): Record<string, string> {
  const fields: Record<string, string> = {};
  for (const pair of text.split(';')) {
    if (pair.trim() === '') continue;
    const [, name, value] = /^\s*(\w+)=(.*?)\s*$/s.exec(pair) ?? [];
    if (name === undefined || value === undefined) throw invalid('is not of the form Name=Value;Name=Value');
    fields[name] = value;
  }
  return fields;
}

function usualEndpoint(fields: Readonly<Record<string, string>>, account: string): string | undefined {
  const suffix = fields['EndpointSuffix'];
  const protocol = fields['DefaultEndpointsProtocol'] ?? 'https';
  if (suffix === undefined && protocol === 'https') return undefined;
  return `${protocol}://${account}.blob.${suffix ?? 'core.windows.net'}`;
}

function invalid(what: string): CheckpointError {
  return new CheckpointError('InvalidConfig', `${CONNECTION_STRING} ${what}`);
}
