import { createHash } from 'node:crypto';
import type { S3Config } from './config.ts';

/** Kinds of requests that settings of the bucket affect. */
export type Operation = 'create' | 'beginUpload' | 'putPart' | 'listParts' | 'complete' | 'read' | 'other';

/**
 * Operations that each header belongs to. The headers of a customer-provided key go with every
 * request that touches bytes.
 */
const WRITES: readonly Operation[] = ['create', 'beginUpload'];
const TOUCHES_BYTES: readonly Operation[] = [...WRITES, 'putPart', 'listParts', 'complete', 'read'];

/** Headers that the store's settings add to each kind of request. Computed once. */
export function settingHeaders(
  config: S3Config,
): Readonly<Record<Operation, Readonly<Record<string, string>>>> {
  const always = {
    ...(config.expectedOwner !== undefined && { 'x-amz-expected-bucket-owner': config.expectedOwner }),
    ...(config.requestPayer && { 'x-amz-request-payer': 'requester' }),
  };
  const write = {
    ...(config.encryption !== undefined && { 'x-amz-server-side-encryption': config.encryption }),
    ...(config.kmsKeyId !== undefined && { 'x-amz-server-side-encryption-aws-kms-key-id': config.kmsKeyId }),
    ...(config.bucketKey && { 'x-amz-server-side-encryption-bucket-key-enabled': 'true' }),
    ...(config.storageClass !== undefined && { 'x-amz-storage-class': config.storageClass }),
  };
  const customer = customerKeyHeaders(config.customerKey?.reveal());
  const of = (operation: Operation) => ({
    ...always,
    ...(WRITES.includes(operation) && write),
    ...(TOUCHES_BYTES.includes(operation) && customer),
  });
  return {
    create: of('create'),
    beginUpload: of('beginUpload'),
    putPart: of('putPart'),
    listParts: of('listParts'),
    complete: of('complete'),
    read: of('read'),
    other: of('other'),
  };
}

function customerKeyHeaders(key: string | undefined): Record<string, string> {
  if (key === undefined) return {};
  return {
    'x-amz-server-side-encryption-customer-algorithm': 'AES256',
    'x-amz-server-side-encryption-customer-key': key,
    'x-amz-server-side-encryption-customer-key-md5': createHash('md5').update(key, 'base64').digest('base64'),
  };
}
