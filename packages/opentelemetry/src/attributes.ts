/** Names of attributes. Those of S3 and `error.type` are of OpenTelemetry's conventions. */

import type { Measured } from '@holdfast/core/contract';
import type { Attributes } from './api.ts';

export type Known = Measured & { readonly uri?: string };

/** Attributes of a span. A version is text, because it may exceed 2^53. */
export function attributesOf(known: Known, runUri: string): Attributes {
  const { uri, version, writer, name, key, sizeBytes, referencedBytes, fileCount } = known;
  return defined({
    'holdfast.run.uri': uri,
    'holdfast.version': version?.toString(),
    'holdfast.writer.index': writer?.index,
    'holdfast.writer.count': writer?.count,
    'holdfast.file.name': name,
    'holdfast.file.count': fileCount,
    'holdfast.size_bytes': sizeBytes,
    'holdfast.referenced_bytes': referencedBytes,
    ...(key !== undefined && ofObject(runUri, key)),
  });
}

/** `aws.s3.bucket` and `aws.s3.key`, or the key below the run on another store. */
function ofObject(runUri: string, key: string): Attributes {
  if (!runUri.startsWith('s3://')) return { 'holdfast.object.key': key };
  const { hostname: bucket, pathname } = new URL(runUri);
  const prefix = decodeURIComponent(pathname).replace(/^\/|\/$/g, '');
  return { 'aws.s3.bucket': bucket, 'aws.s3.key': prefix === '' ? key : `${prefix}/${key}` };
}

/** Scheme of the store: `s3`, `gs`, `az`, `file`. A metric has it instead of the URI. */
export function storeOf(uri: string): string {
  return uri.slice(0, uri.indexOf(':'));
}

function defined(all: Record<string, string | number | undefined>): Attributes {
  return Object.fromEntries(
    Object.entries(all).filter((each): each is [string, string | number] => each[1] !== undefined),
  );
}
